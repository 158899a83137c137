/** The plate that the operator reads in the headset, drawn on a canvas. */

export const HUD_WIDTH = 1024;
export const HUD_HEIGHT = 288;

const COLOURS = {
  ready: '#2fbf71',
  recording: '#ff4d4f',
  saving: '#f5a524',
  homing: '#4aa8ff',
  not_ready: '#8a94a6',
  fault: '#ff4d4f',
  lost: '#ffd23f',
};
const TITLES = {
  ready: 'READY',
  recording: 'REC',
  saving: 'SAVING',
  homing: 'HOMING',
  not_ready: 'NOT READY',
  fault: 'FAULT',
};
const FONT = '"Inter", "Roboto", system-ui, sans-serif';

/**
 * What the plate says, as words; the page shows the same.
 * @param {import('./link.js').Link} link
 * @param {number} now performance.now()
 */
export function plateOf(link, now) {
  const state = link.state;
  if (!link.connected) {
    return plate('lost', 'NO CONNECTION', '', 'The arm holds. Trying to reach the host again …', '');
  }
  if (!state) return plate('not_ready', 'CONNECTING', '', 'Waiting for the session.', '');
  const episode = state.episode >= 0 ? `episode ${state.episode}` : '';
  const saved = `${state.saved} saved`;
  const faults = state.faults.join(' · ');
  const second = faults || state.teleop || '';
  const aside = {
    recording: `${episode}   ${clock(state.elapsed_ms + now - state.at)}`,
    saving: episode,
    ready: saved,
    homing: saved,
    not_ready: saved,
    fault: saved,
  }[state.state];
  const third = state.text === second ? '' : state.text;
  const drawn = plate(state.state, TITLES[state.state] ?? state.state, aside ?? '', second, third);
  return { ...drawn, alarm: faults !== '', task: state.task, paired: link.paired };
}

/** Minutes, seconds and tenths. */
export function clock(ms) {
  const tenths = Math.max(0, Math.floor(ms / 100));
  const seconds = Math.floor(tenths / 10);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}.${tenths % 10}`;
}

function plate(kind, title, aside, second, third) {
  return { kind, title, aside, second, third, alarm: kind === 'lost', task: '', paired: true };
}

export class Hud {
  constructor() {
    this.canvas = document.createElement('canvas');
    this.canvas.width = HUD_WIDTH;
    this.canvas.height = HUD_HEIGHT;
    this.pen = this.canvas.getContext('2d');
    this.drawn = '';
  }

  /**
   * Draw what has changed.
   * @returns {boolean} whether anything had
   */
  draw(link, now) {
    const content = plateOf(link, now);
    const status = link.connected ? linkText(link) : '';
    const key = JSON.stringify([content, status]);
    if (key === this.drawn) return false;
    this.drawn = key;
    this.#paint(content, status);
    return true;
  }

  #paint(content, status) {
    const pen = this.pen;
    const colour = COLOURS[content.kind] ?? COLOURS.not_ready;
    pen.clearRect(0, 0, HUD_WIDTH, HUD_HEIGHT);
    pen.fillStyle = 'rgba(10, 14, 22, 0.82)';
    box(pen, 4, 4, HUD_WIDTH - 8, HUD_HEIGHT - 8, 36);
    pen.fill();
    pen.lineWidth = content.kind === 'recording' || content.alarm ? 6 : 3;
    pen.strokeStyle = colour;
    pen.stroke();
    pen.textBaseline = 'middle';

    pen.font = `700 64px ${FONT}`;
    const titleWidth = pen.measureText(content.title).width + 110;
    pen.fillStyle = colour;
    box(pen, 36, 34, titleWidth, 88, 44);
    pen.fill();
    pen.fillStyle = '#0a0e16';
    mark(pen, content.kind, 84, 78);
    pen.fillText(content.title, 116, 81);

    pen.fillStyle = '#ffffff';
    fit(pen, content.aside, 600, 58, HUD_WIDTH - 44 - 36 - titleWidth - 24);
    pen.textAlign = 'right';
    pen.fillText(content.aside, HUD_WIDTH - 44, 80);
    pen.textAlign = 'left';

    const room = HUD_WIDTH - 88;
    pen.fillStyle = content.alarm ? '#ffd9d9' : '#dfe7f3';
    const second = content.paired ? content.second : 'Not paired: this page only watches';
    const { lines, first, step } = written(pen, second, room);
    lines.forEach((line, i) => pen.fillText(line, 44, first + step * i));
    if (lines.length < 2) {
      pen.font = `400 34px ${FONT}`;
      pen.fillStyle = '#9fb0c8';
      pen.fillText(cut(pen, content.third || content.task, room), 44, 212);
    }
    pen.font = `400 26px ${FONT}`;
    pen.fillStyle = '#7f8ea6';
    pen.textAlign = 'right';
    pen.fillText(status, HUD_WIDTH - 44, 258);
    pen.textAlign = 'left';
  }
}

function linkText(link) {
  const parts = [];
  if (link.roundTripMs !== null) parts.push(`link ${Math.max(5, Math.round(link.roundTripMs / 5) * 5)} ms`);
  if (link.dropped) parts.push(`${link.dropped} poses dropped`);
  return parts.join(' · ');
}

/** Choose the largest font, `most` px at most, in which a text has room. */
function fit(pen, text, weight, most, room) {
  pen.font = `${weight} ${most}px ${FONT}`;
  const width = pen.measureText(text).width;
  if (width > room) pen.font = `${weight} ${Math.floor((most * room) / width)}px ${FONT}`;
}

/** A text in two lines, or in three smaller ones where it is long: what must be done often stands at its end. */
function written(pen, text, room) {
  pen.font = `500 40px ${FONT}`;
  const large = wrap(pen, text, room);
  if (large.length <= 2) return { lines: large, first: 164, step: 48 };
  pen.font = `500 34px ${FONT}`;
  const small = wrap(pen, text, room);
  const lines = small.length > 3 ? [...small.slice(0, 2), small.slice(2).join(' ')] : small;
  return { lines: lines.map((line) => cut(pen, line, room)), first: 147, step: 38 };
}

/** A sign beside the title, so that the state is not told by colour alone. */
function mark(pen, kind, x, y) {
  pen.beginPath();
  if (kind === 'ready') {
    pen.lineWidth = 9;
    pen.strokeStyle = '#0a0e16';
    pen.moveTo(x - 17, y + 1);
    pen.lineTo(x - 5, y + 14);
    pen.lineTo(x + 18, y - 15);
    pen.stroke();
  } else if (kind === 'fault' || kind === 'lost' || kind === 'not_ready') {
    pen.moveTo(x, y - 20);
    pen.lineTo(x + 21, y + 17);
    pen.lineTo(x - 21, y + 17);
    pen.fill();
  } else if (kind === 'homing') {
    pen.moveTo(x, y - 20);
    pen.lineTo(x + 20, y);
    pen.lineTo(x + 12, y);
    pen.lineTo(x + 12, y + 17);
    pen.lineTo(x - 12, y + 17);
    pen.lineTo(x - 12, y);
    pen.lineTo(x - 20, y);
    pen.fill();
  } else {
    pen.arc(x, y, 17, 0, 2 * Math.PI);
    pen.fill();
  }
}

function box(pen, x, y, width, height, radius) {
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
}

function cut(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let short = text;
  while (short && pen.measureText(`${short}…`).width > room) short = short.slice(0, -1);
  return `${short}…`;
}

function wrap(pen, text, room) {
  const lines = [];
  let line = '';
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const longer = line ? `${line} ${word}` : word;
    if (line && pen.measureText(longer).width > room) {
      lines.push(line);
      line = word;
    } else {
      line = longer;
    }
  }
  if (line) lines.push(line);
  return lines;
}
