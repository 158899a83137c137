/** Plays the host's pulses, one after another for each hand. */

import { inputOf } from './sample.js';

const PAUSE_MS = 80;
const MOST_WAITING = 8;

export class Haptics {
  constructor() {
    this.waiting = { left: [], right: [] };
    this.playing = { left: false, right: false };
  }

  /** @param {XRSession} session @param {{hand: string, intensity: number, duration_s: number}} pulse */
  play(session, pulse) {
    const queue = this.waiting[pulse.hand];
    if (!queue || queue.length >= MOST_WAITING) return;
    queue.push(pulse);
    if (!this.playing[pulse.hand]) this.#next(session, pulse.hand);
  }

  #next(session, hand) {
    const pulse = this.waiting[hand].shift();
    this.playing[hand] = pulse !== undefined;
    if (!pulse) return;
    const durationMs = pulse.duration_s * 1000;
    inputOf(session, hand)?.gamepad?.hapticActuators?.[0]?.pulse(pulse.intensity, durationMs);
    setTimeout(() => this.#next(session, hand), durationMs + PAUSE_MS);
  }
}
