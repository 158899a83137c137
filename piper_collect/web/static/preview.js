/** The headset's picture on the page, for a look without a headset. */

import { invertRigid, multiply, perspective, place } from './matrix.js';
import { Scene } from './scene.js';

const HEAD = { position: [0, 1.6, 0], orientation: [0, 0, 0, 1] };
const ACROSS_RAD = 1.3;
const EVERY_MS = 66;

export class Preview {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {import('./link.js').Link} link
   * @param {import('./panels.js').Panels} panels
   */
  constructor(canvas, link, panels) {
    this.canvas = canvas;
    this.link = link;
    this.gl = canvas.getContext('webgl2', { antialias: true, alpha: true });
    this.scene = this.gl && new Scene(this.gl, panels);
    this.drawnAt = 0;
    this.running = false;
    this.panels = panels;
  }

  start() {
    if (!this.scene || this.running) return;
    this.running = true;
    this.panels.redraw();
    requestAnimationFrame((time) => this.#frame(time));
  }

  stop() {
    this.running = false;
  }

  #frame(time) {
    if (!this.running) return;
    requestAnimationFrame((t) => this.#frame(t));
    if (time - this.drawnAt < EVERY_MS) return;
    this.drawnAt = time;
    const { gl, canvas } = this;
    const width = Math.round(canvas.clientWidth * Math.min(devicePixelRatio, 2));
    const height = Math.round(canvas.clientHeight * Math.min(devicePixelRatio, 2));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    gl.viewport(0, 0, width, height);
    gl.clearColor(0.035, 0.05, 0.08, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    this.scene.update(this.link, HEAD, performance.now());
    const eye = invertRigid(place(HEAD.position, HEAD.orientation));
    const aspect = width / Math.max(1, height);
    const upright = 2 * Math.atan(Math.tan(ACROSS_RAD / 2) / aspect);
    const camera = multiply(perspective(upright, aspect), eye);
    this.scene.draw(camera, 'vr', []);
  }
}
