/** Each camera's live picture laid over the first one of a dataset. */

import { make, set } from './parts.js';

const MODES = ['Overlay', 'Blink', 'Difference', 'Live', 'Reference'];
const BLINK_MS = 600;
const ALIGNED_PX = 1;
const MOVED_PX = 3;

export class Alignments {
  /** @param {HTMLElement} parent holds the cards */
  constructor(parent) {
    this.parent = parent;
    this.cards = new Map();
  }

  /** Take the reference pictures: camera → JPEG in base64. */
  async refer(pictures) {
    this.cards.clear();
    for (const [name, text] of Object.entries(pictures)) {
      const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      const reference = await createImageBitmap(new Blob([bytes], { type: 'image/jpeg' }));
      this.cards.set(name, new Card(name, reference));
    }
    this.parent.replaceChildren(...[...this.cards.values()].map((card) => card.root));
  }

  /** Take a camera's newest picture. */
  show(name, bitmap) {
    const card = this.cards.get(name);
    if (card) card.live = bitmap;
  }

  /** Say why a camera's picture is not of now; empty when it is. */
  age(name, words) {
    this.cards.get(name)?.age(words);
  }

  /** Take the host's numbers. */
  measured(misfits) {
    for (const [name, card] of this.cards) card.measured(misfits?.[name]);
  }

  draw(now) {
    if (this.parent.offsetParent === null) return;
    for (const card of this.cards.values()) card.draw(now);
  }
}

class Card {
  constructor(name, reference) {
    this.reference = reference;
    this.live = null;
    this.mode = MODES[0];
    this.canvas = make('canvas', '', { width: reference.width, height: reference.height });
    this.canvas.setAttribute('aria-label', `${name}: live picture over the first of the dataset`);
    this.old = make('div', '', { className: 'old' });
    this.shown = make('div', '', { className: 'old', hidden: true });
    this.shift = make('b', '…');
    this.difference = make('span', '', { className: 'soft' });
    this.verdict = make('span', '', { className: 'badge', hidden: true });
    this.slider = make('input', '', { type: 'range', min: '0', max: '100', value: '50' });
    this.root = this.#build(name);
  }

  age(words) {
    this.root.dataset.stale = String(words !== '');
    this.old.hidden = words === '';
    set(this.old, words);
  }

  measured(misfit) {
    const found = misfit && misfit.right_px !== null;
    set(this.shift, found ? shiftWords(misfit) : misfit ? 'No shift to tell' : 'Not compared yet');
    const difference = misfit?.difference ?? null;
    const words = difference === null ? [] : [`mean difference ${difference.toFixed(1)} of 255`];
    if (misfit?.note) words.unshift(misfit.note);
    set(this.difference, words.join('; '));
    const far = found ? Math.max(Math.abs(misfit.right_px), Math.abs(misfit.down_px)) : 0;
    this.verdict.hidden = !found;
    this.verdict.dataset.verdict = far < ALIGNED_PX ? 'good' : far < MOVED_PX ? 'warning' : 'bad';
    set(this.verdict, far < ALIGNED_PX ? '✓ aligned' : far < MOVED_PX ? '! nearly' : '✕ moved');
  }

  draw(now) {
    const { canvas, reference, live, mode } = this;
    const pen = canvas.getContext('2d');
    const first = mode === 'Blink' ? Math.floor(now / BLINK_MS) % 2 === 0 : mode === 'Reference';
    const size = [0, 0, canvas.width, canvas.height];
    canvas.classList.toggle('strong', mode === 'Difference' && live !== null);
    pen.globalCompositeOperation = 'source-over';
    pen.globalAlpha = 1;
    pen.drawImage(first || !live ? reference : live, ...size);
    if (live && mode === 'Overlay') {
      pen.globalAlpha = 1 - this.slider.value / 100;
      pen.drawImage(reference, ...size);
    }
    if (live && mode === 'Difference') {
      pen.globalCompositeOperation = 'difference';
      pen.drawImage(reference, ...size);
    }
    this.shown.hidden = mode !== 'Blink' || !this.old.hidden;
    if (!this.shown.hidden) set(this.shown, first ? 'episode 0' : 'live');
  }

  #build(name) {
    const root = make('figure', '', { className: 'card' });
    const head = make('header', '');
    head.append(make('h3', name), this.verdict);
    const picture = make('div', '', { className: 'picture' });
    picture.append(this.canvas, this.shown, this.old);
    const numbers = make('p', '', { className: 'numbers' });
    numbers.append(this.shift, this.difference);
    const tools = make('div', '', { className: 'tools' });
    const buttons = MODES.map((mode) => make('button', mode, { type: 'button' }));
    const fader = make('label', '');
    fader.append('episode 0', this.slider, 'live');
    const choose = (mode) => {
      this.mode = mode;
      buttons.forEach((each) => each.setAttribute('aria-pressed', String(each.textContent === mode)));
      fader.hidden = mode !== 'Overlay';
    };
    buttons.forEach((each) => each.addEventListener('click', () => choose(each.textContent)));
    choose(this.mode);
    tools.append(...buttons, fader);
    root.append(head, numbers, tools, picture);
    return root;
  }
}

/** Where the live picture lies, in words: "→ 7.2 px right, ↓ 3.1 px down". */
function shiftWords({ right_px, down_px }) {
  const across = Math.abs(right_px).toFixed(1);
  const along = Math.abs(down_px).toFixed(1);
  const words = [];
  if (across !== '0.0') words.push(right_px > 0 ? `→ ${across} px too far right` : `← ${across} px too far left`);
  if (along !== '0.0') words.push(down_px > 0 ? `↓ ${along} px too low` : `↑ ${along} px too high`);
  return words.join(', ') || 'no shift';
}
