/** The immersive session: poses out at every frame first, then the picture. */

import { Haptics } from './haptics.js';
import { invertRigid, multiply } from './matrix.js';
import { awaySample, frameSample } from './sample.js';
import { Scene } from './scene.js';

const HAND_TINTS = { idle: [0.62, 0.68, 0.78, 0.9], following: [0.18, 0.75, 0.44, 1] };

export const MODES = { vr: 'immersive-vr', ar: 'immersive-ar' };

/** Which modes this browser can enter. */
export async function supportedModes() {
  const can = async (mode) => {
    try {
      return Boolean(await navigator.xr?.isSessionSupported(mode));
    } catch {
      return false;
    }
  };
  return { vr: await can(MODES.vr), ar: await can(MODES.ar) };
}

export class Headset extends EventTarget {
  /**
   * @param {import('./link.js').Link} link
   * @param {import('./panels.js').Panels} panels
   */
  constructor(link, panels) {
    super();
    this.link = link;
    this.panels = panels;
    this.session = null;
    this.mode = 'vr';
    this.sequence = 0;
    this.haptics = new Haptics();
    this.canvas = document.createElement('canvas');
    this.gl = null;
    link.addEventListener('pulse', ({ detail }) => {
      if (this.session) this.haptics.play(this.session, detail);
    });
  }

  /** Must be called from a press of a button, as browsers demand. @param {'vr' | 'ar'} mode */
  async enter(mode) {
    const session = await navigator.xr.requestSession(MODES[mode], { requiredFeatures: ['local-floor'] });
    try {
      await this.#prepare(session);
    } catch (error) {
      await session.end();
      throw error;
    }
    this.session = session;
    this.mode = mode;
    session.addEventListener('visibilitychange', () => this.#away(session.visibilityState));
    session.addEventListener('end', () => this.#ended());
    session.requestAnimationFrame((time, frame) => this.#frame(time, frame));
    this.dispatchEvent(new Event('change'));
  }

  exit() {
    return this.session?.end();
  }

  async #prepare(session) {
    if (!this.gl) {
      this.gl = this.canvas.getContext('webgl2', { xrCompatible: true, antialias: true, alpha: true });
      if (!this.gl) throw new Error('this browser has no WebGL 2');
      this.scene = new Scene(this.gl, this.panels);
    }
    await this.gl.makeXRCompatible();
    session.updateRenderState({ baseLayer: new XRWebGLLayer(session, this.gl) });
    this.space = await session.requestReferenceSpace('local-floor');
    this.panels.redraw();
  }

  #frame(time, frame) {
    const session = frame.session;
    if (session !== this.session) return;
    session.requestAnimationFrame((t, f) => this.#frame(t, f));
    const sample = frameSample(frame, this.space, time, this.#next());
    this.link.sendInput(sample);
    this.#draw(frame, sample);
  }

  #draw(frame, sample) {
    const gl = this.gl;
    const viewer = frame.getViewerPose(this.space);
    const layer = frame.session.renderState.baseLayer;
    gl.bindFramebuffer(gl.FRAMEBUFFER, layer.framebuffer);
    const opaque = this.mode === 'vr';
    gl.clearColor(opaque ? 0.035 : 0, opaque ? 0.05 : 0, opaque ? 0.08 : 0, opaque ? 1 : 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const head = sample.head && { position: sample.head.slice(0, 3), orientation: sample.head.slice(3) };
    this.scene.update(this.link, head, performance.now());
    if (!viewer) return;
    const hands = this.#hands(sample);
    for (const view of viewer.views) {
      const port = layer.getViewport(view);
      gl.viewport(port.x, port.y, port.width, port.height);
      const camera = multiply(view.projectionMatrix, invertRigid(view.transform.matrix));
      this.scene.draw(camera, this.mode, hands);
    }
  }

  #hands(sample) {
    const following = this.link.state?.teleop === 'following';
    return ['left', 'right']
      .filter((hand) => sample[hand]?.grip)
      .map((hand) => ({
        position: sample[hand].grip.slice(0, 3),
        orientation: sample[hand].grip.slice(3),
        tint: following && hand === this.link.about?.hand ? HAND_TINTS.following : HAND_TINTS.idle,
      }));
  }

  /** Frames stop while the session is hidden: say so at once, or the host would wait for the next. */
  #away(visibility) {
    if (this.session && visibility !== 'visible') {
      this.link.sendInput(awaySample(visibility, performance.now(), this.#next()));
    }
    this.dispatchEvent(new Event('change'));
  }

  #ended() {
    this.link.sendInput(awaySample('hidden', performance.now(), this.#next()));
    this.session = null;
    this.dispatchEvent(new Event('change'));
  }

  #next() {
    this.sequence += 1;
    return this.sequence;
  }
}
