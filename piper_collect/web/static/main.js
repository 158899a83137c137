/** The page around the headset: link, pairing, state, controls, and the way in. */

import { Headset, supportedModes } from './headset.js';
import { plateOf } from './hud.js';
import { Link } from './link.js';
import { Panels } from './panels.js';
import { Preview } from './preview.js';

const element = (id) => document.getElementById(id);
const socketUrl = (path) => `wss://${location.host}/${path}`;

const link = new Link(socketUrl('operator'));
const panels = new Panels(link, socketUrl('panels'));
const headset = new Headset(link, panels);
const preview = new Preview(element('preview'), link, panels);
let modes = { vr: false, ar: false };
let offered = offeredCode();

link.addEventListener('change', () => {
  panels.watch();
  offer();
  show();
});
headset.addEventListener('change', () => {
  if (headset.session) preview.stop();
  else if (!document.hidden) preview.start();
  show();
});
document.addEventListener('visibilitychange', () => {
  if (document.hidden || headset.session) preview.stop();
  else preview.start();
});

element('pair').addEventListener('submit', (event) => {
  event.preventDefault();
  link.pair(element('code').value.replace(/\D/g, ''));
});
element('new-code').addEventListener('click', () => link.askForCode());
element('leave').addEventListener('click', () => link.leave());
for (const mode of ['vr', 'ar']) {
  element(`enter-${mode}`).addEventListener('click', async () => {
    try {
      await headset.enter(mode);
    } catch (error) {
      link.notice = `The headset did not start: ${error.message}`;
      show();
    }
  });
}

modes = await supportedModes();
navigator.xr?.addEventListener?.('devicechange', async () => {
  modes = await supportedModes();
  show();
});
link.open();
preview.start();
setInterval(show, 100);
show();

/** The code that came with the address (from the QR code); taken out of it at once. */
function offeredCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get('pair');
  if (code) history.replaceState(null, '', location.pathname);
  return code;
}

/** Pair by the code of the address, once, where no earlier pairing holds. */
function offer() {
  if (!offered || !link.about || link.paired) return;
  const code = offered;
  offered = null;
  link.pair(code);
}

function show() {
  const plate = plateOf(link, performance.now());
  set('link', linkWords());
  element('link').dataset.ok = String(link.connected);
  element('state').dataset.kind = plate.kind;
  set('state-title', plate.title);
  set('state-aside', plate.aside);
  const state = link.connected ? link.state : null;
  set('task', state?.task ? `“${state.task}”` : '');
  set('text', state?.text ?? '');
  set('teleop', state?.teleop ? `Arm: ${state.teleop}` : '');
  showFaults(state?.faults ?? []);
  const taken = Boolean(state?.driver) && !link.paired;
  element('pair').hidden = !link.connected || link.paired || taken;
  element('taken').hidden = !taken;
  element('paired').hidden = !link.paired;
  element('enter-vr').disabled = !modes.vr || Boolean(headset.session);
  element('enter-ar').disabled = !modes.ar || Boolean(headset.session);
  set('notice', link.notice);
  showControls(link.about?.hand ?? 'right');
  element('no-xr').hidden = modes.vr || modes.ar;
  if (!element('no-xr').hidden) set('no-xr-why', whyNoXr());
}

function linkWords() {
  if (!link.connected) return 'no connection, trying again …';
  const trip = link.roundTripMs === null ? '' : `, ${Math.round(link.roundTripMs)} ms`;
  return `connected${trip}`;
}

function whyNoXr() {
  if (!window.isSecureContext) return 'The page was not opened over https, so the browser keeps WebXR away from it.';
  if (!navigator.xr) return 'It has no WebXR.';
  return 'It has WebXR, but sees no headset.';
}

function showFaults(faults) {
  const list = element('faults');
  const key = JSON.stringify(faults);
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  list.hidden = faults.length === 0;
  list.replaceChildren(...faults.map((fault) => Object.assign(document.createElement('li'), { textContent: fault })));
}

function showControls(driving) {
  const list = document.querySelector('.hands');
  const key = `${driving} ${link.about?.trigger}`;
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  for (const figure of list.querySelectorAll('figure')) {
    const hand = figure.dataset.hand;
    const [first, second] = hand === 'left' ? ['X', 'Y'] : ['A', 'B'];
    const rows =
      hand === driving
        ? [
            ['Grip', 'hold: the arm follows your hand; let go: it stays'],
            ['Trigger', `${link.about?.trigger ?? 'closes'} the gripper as far as you pull`],
            [first, 'start an episode; again: stop and save it'],
            [second, 'discard the running episode'],
          ]
        : [
            [second, 'hold 1 s: the arm moves home'],
            [first, 'hold 1 s: discard, or delete the last episode'],
          ];
    const title = document.createElement('h3');
    title.textContent = `${hand === 'left' ? 'Left' : 'Right'} hand${hand === driving ? ', drives the arm' : ''}`;
    const table = document.createElement('dl');
    for (const [key, meaning] of rows) {
      const term = Object.assign(document.createElement('dt'), { textContent: key });
      const text = Object.assign(document.createElement('dd'), { textContent: meaning });
      table.append(term, text);
    }
    figure.querySelector('figcaption').replaceChildren(title, table);
  }
}

function set(id, text) {
  const target = element(id);
  if (target.textContent !== text) target.textContent = text;
}
