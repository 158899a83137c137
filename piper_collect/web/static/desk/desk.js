/** The page at the desk: state, topics, cameras, episodes, disk. */

import { Alignments } from './alignments.js';
import { DeskLink } from './desk_link.js';
import { duration, seconds, size } from './figures.js';
import { plateOf } from './hud.js';
import { Panels } from './panels.js';
import { cell, element, fill, make, set } from './parts.js';

const MARKS = { ready: '✓', recording: '●', saving: '…', homing: '⌂', not_ready: '…', fault: '!', lost: '?' };
const VERDICTS = { good: '✓ good', idle: '– silent', warning: '! look', bad: '✕ bad' };
const SCARCE_MINUTES = 30;
const MOVED_PX = 3;
const DRAW_MS = 50;

const socketUrl = (path) => `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/desk/${path}`;
const link = new DeskLink(socketUrl('state'));
const panels = new Panels(link, socketUrl('pictures'));
const alignments = new Alignments(element('alignments'));
const thumbnails = [];

link.addEventListener('change', ({ detail }) => {
  if (detail === 'hello') {
    panels.watch();
    makeThumbnails(link.about.cameras);
  }
  if (detail === 'reference') showReference();
  if (detail === 'episodes') showEpisodes();
  if (detail === 'state' || detail === 'closed') show();
});
element('unlock').addEventListener('submit', (event) => {
  event.preventDefault();
  link.unlock(element('key').value.trim());
});
for (const view of ['session', 'alignment']) {
  element(`show-${view}`).addEventListener('click', () => choose(view));
}
choose(location.hash === '#alignment' ? 'alignment' : 'session');
link.open();
setInterval(show, 100);
setInterval(draw, DRAW_MS);

function choose(view) {
  for (const each of ['session', 'alignment']) {
    element(`${each}-view`).hidden = each !== view;
    element(`show-${each}`).setAttribute('aria-pressed', String(each === view));
  }
  document.body.dataset.view = view;
  panels.redraw();
}

// -- pictures -------------------------------------------------------------------------------------

function makeThumbnails(cameras) {
  if (thumbnails.length === cameras.length && thumbnails.every((each, i) => each.name === cameras[i])) return;
  thumbnails.length = 0;
  const figures = cameras.map((name) => {
    const canvas = make('canvas', '', { width: 4, height: 3 });
    canvas.setAttribute('aria-label', `Live picture of ${name}`);
    const old = make('div', '', { className: 'old' });
    const note = make('span', '', { className: 'soft' });
    const figure = make('figure', '', { className: 'card camera' });
    const picture = make('div', '', { className: 'picture' });
    const caption = make('figcaption', '');
    picture.append(canvas, old);
    caption.append(make('b', name), note);
    figure.append(picture, caption);
    thumbnails.push({ name, canvas, figure, old, note });
    return figure;
  });
  element('cameras').replaceChildren(...figures);
  if (!cameras.length) element('cameras').replaceChildren(make('p', 'This session has no camera.', { className: 'soft' }));
}

/** Draw what is new, only while it can be seen: a page in the background asks for no pictures. */
function draw() {
  if (document.hidden) return;
  const now = performance.now();
  for (let picture = panels.next(); picture; picture = panels.next()) {
    const { canvas, name } = thumbnails[picture.camera];
    const { width, height } = picture.bitmap;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    canvas.getContext('2d').drawImage(picture.bitmap, 0, 0);
    alignments.show(name, picture.bitmap);
  }
  thumbnails.forEach(({ name, figure, old, note }, i) => {
    const words = age(i, now);
    figure.dataset.stale = String(words !== '');
    old.hidden = words === '';
    set(old, words);
    set(note, moved(link.state?.misfits?.[name]));
    alignments.age(name, words);
  });
  alignments.draw(now);
}

/** Why a picture is not of now; empty when it is. */
function age(camera, now) {
  const { at, bitmap } = panels.pictures[camera] ?? {};
  const fault = link.state?.pictures?.[thumbnails[camera].name];
  if (fault) return fault;
  if (!bitmap) return panels.reason || 'no picture yet';
  return panels.isStale(camera, now) ? `OLD: this picture came ${seconds((now - at) / 1000)} ago` : '';
}

function moved(misfit) {
  if (!misfit || misfit.right_px === null) return '';
  const far = Math.hypot(misfit.right_px, misfit.down_px);
  return far >= MOVED_PX ? `moved ${far.toFixed(0)} px against episode 0` : '';
}

// -- state ----------------------------------------------------------------------------------------

function show() {
  const now = performance.now();
  const { connected, state } = link;
  const plate = connected ? plateOf(link, now) : lostPlate(now);
  document.body.dataset.live = String(connected);
  document.title = `${plate.title} ${plate.aside}`.trim();
  set('link', connected ? '● live' : 'not live');
  element('link').dataset.ok = String(connected);
  element('banner').dataset.kind = plate.kind;
  element('banner').dataset.alarm = String(Boolean(plate.alarm) && connected);
  set('mark', MARKS[plate.kind] ?? '…');
  set('title', plate.title);
  set('aside', plate.aside);
  set('task', connected && plate.task ? `“${plate.task}”` : '');
  set('second', plate.second);
  set('third', plate.third);
  element('unlock').hidden = connected || !link.reason.includes('key');
  set('unlock-notice', link.pass ? 'This key is not the one of this session.' : '');
  if (!state) return;
  set('session', state.session);
  showTiles(state);
  showTopics(state.topics, (now - state.at) / 1000);
  alignments.measured(state.misfits);
}

function lostPlate(now) {
  const plate = { kind: 'lost', title: 'NO CONNECTION', aside: '', second: link.reason, third: '', task: '' };
  if (!link.state) return { ...plate, third: 'Trying to reach the session …' };
  const ago = seconds((now - link.heardAt) / 1000);
  return { ...plate, aside: `for ${ago}`, third: `What is shown below is ${ago} old. Trying to reach the session …` };
}

function showTiles(state) {
  const total = link.episodes.reduce((sum, row) => sum + row.seconds, 0);
  set('saved', String(state.saved));
  set('saved-note', `episodes saved${total ? `, ${duration(total)}` : ''}`);
  set('disk', state.bytes_free === null ? '–' : size(state.bytes_free));
  set('disk-note', diskWords(state));
  level('disk', state.minutes_left !== null && state.minutes_left < SCARCE_MINUTES ? 'bad' : '');
  const topics = state.topics;
  const running = state.state === 'recording' || state.state === 'saving';
  const lost = topics?.reduce((sum, row) => sum + row.lost, 0) ?? 0;
  set('lost', topics && running ? String(lost) : '–');
  level('lost', lost ? 'bad' : '');
  const wrong = topics?.filter((row) => row.verdict === 'bad' || row.verdict === 'warning') ?? [];
  set('sound', topics ? `${topics.length - wrong.length} of ${topics.length}` : '–');
  level('sound', wrong.some((row) => row.verdict === 'bad') ? 'bad' : wrong.length ? 'warning' : '');
}

function diskWords(state) {
  if (state.bytes_free === null) return 'disk left';
  if (state.minutes_left === null) return 'disk left; for how long, the first episode tells';
  const rate = size(state.bytes_a_second);
  return `disk left, ${Math.floor(state.minutes_left)} min at ${rate}/s`;
}

function level(id, value) {
  element(id).closest('.tile').dataset.level = value;
}

function showTopics(topics, later) {
  element('topics').hidden = !topics;
  element('no-topics').hidden = Boolean(topics);
  fill(element('topics').tBodies[0], topics ?? [], (row) => {
    const badge = make('span', VERDICTS[row.verdict], { className: 'badge' });
    const name = make('span', row.name, { className: 'path name' });
    const topic = [name];
    if (!row.required) topic.push(make('span', ' optional', { className: 'soft' }));
    if (row.reason) topic.push(make('span', row.reason, { className: 'why' }));
    const rate = [row.rate_hz > 0 ? row.rate_hz.toFixed(row.rate_hz < 100 ? 1 : 0) : '0'];
    rate.push(make('span', row.expected_hz === null ? ' Hz' : ` of ${row.expected_hz} Hz`, { className: 'of' }));
    return {
      dataset: { verdict: row.verdict },
      cells: [
        cell([badge], '', 'state'),
        cell(topic, '', ''),
        cell(rate, 'rate', 'number'),
        cell([row.age_s === null ? '–' : seconds(row.age_s + later)], 'newest', 'number'),
        cell([row.lost ? String(row.lost) : '0'], 'lost', 'number'),
      ],
    };
  });
}

function showEpisodes() {
  const rows = [...link.episodes].reverse();
  element('episodes').hidden = !rows.length;
  element('no-episodes').hidden = Boolean(rows.length);
  fill(element('episodes').tBodies[0], rows, (row) => {
    const whole = row.outcome === 'success' && !row.flaws.length;
    const words = [make('span', whole ? '✓ complete' : '✕ INCOMPLETE', { className: 'badge' })];
    if (!whole) words.push(` ${row.flaws.join('; ')}`);
    return {
      dataset: { whole: String(whole) },
      cells: [
        cell([String(row.number)], 'episode', 'number'),
        cell([duration(row.seconds)], 'length', 'number'),
        cell([row.outcome === 'success' ? 'saved' : row.outcome], '', ''),
        cell([String(row.lost)], 'lost', 'number'),
        cell(words, '', ''),
      ],
    };
  });
}

async function showReference() {
  const { dataset, notes, pictures } = link.reference;
  set('dataset', dataset || 'a dataset');
  element('notes').replaceChildren(...notes.map((note) => make('li', note)));
  await alignments.refer(pictures);
  panels.redraw();
}
