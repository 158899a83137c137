/** The cameras' newest pictures; a drawn one asks for the next, and only while the poses get through. */

const STALE_MS = 1500;

export class Panels {
  /** @param {import('./link.js').Link} link @param {string} url of the pictures' socket */
  constructor(link, url) {
    this.link = link;
    this.url = url;
    this.names = [];
    this.pictures = [];
    this.reason = '';
    this.owed = new Set(); // cameras whose next picture was not asked for yet
    this.worker = null;
    this.pass = null;
  }

  /** Watch the cameras that the host has, with the pass of the moment. */
  watch() {
    const names = this.link.about?.cameras ?? [];
    if (!names.length || (this.worker && this.pass === this.link.pass)) return;
    if (!this.worker) {
      this.worker = new Worker('panel_worker.js');
      this.worker.onmessage = ({ data }) => this.#take(data);
    }
    this.names = names;
    this.pictures = names.map((_, i) => this.pictures[i] ?? { bitmap: null, at: 0, count: 0, fresh: false });
    this.pass = this.link.pass;
    this.worker.postMessage({ type: 'watch', url: this.url, token: this.pass });
  }

  /** Whether the picture of a camera is too old to be believed. */
  isStale(camera, now) {
    const picture = this.pictures[camera];
    return !picture || !picture.at || now - picture.at > STALE_MS;
  }

  /**
   * A picture that was not drawn yet, if there is one; the caller draws it now.
   * @returns {{camera: number, bitmap: ImageBitmap} | null}
   */
  next() {
    if (!this.link.busy) {
      for (const camera of this.owed) this.worker.postMessage({ type: 'shown', camera });
      this.owed.clear();
    }
    const camera = this.pictures.findIndex((picture) => picture.fresh);
    if (camera < 0) return null;
    this.pictures[camera].fresh = false;
    this.owed.add(camera);
    return { camera, bitmap: this.pictures[camera].bitmap };
  }

  /** Give every picture once more, to a canvas that has none of them. */
  redraw() {
    for (const picture of this.pictures) picture.fresh = picture.bitmap !== null;
  }

  #take(message) {
    if (message.type === 'closed') {
      this.reason = message.reason;
      return;
    }
    const picture = this.pictures[message.camera];
    if (!picture) return;
    picture.bitmap?.close();
    this.reason = '';
    Object.assign(picture, { bitmap: message.bitmap, at: performance.now(), count: message.count, fresh: true });
  }
}
