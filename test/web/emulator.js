/**
 * Runs in the test's browser before the page does: a Quest 3 (IWER), a hand that follows a script, and a record of
 * what the headset gave at each frame, kept apart from the page's own code.
 */
(() => {
  const device = new IWER.XRDevice(IWER.metaQuest3);
  device.installRuntime({ forceInstall: true });
  const emulator = {
    device,
    estimated: false, // whether the headset guesses the positions of the controllers
    frames: [],
    pulses: [],
    path: null,
    pathFrames: 0,
    /** Let the right hand follow `points`: [ms, x, y, z, qx, qy, qz, qw, squeeze, trigger] each. */
    follow(points) {
      this.path = { points, began: performance.now() };
    },
    press(hand, button, value) {
      device.controllers[hand].updateButtonValue(button, value);
    },
  };
  window.emulator = emulator;
  device.position.set(0, 1.6, 0);
  device.controllers.left.position.set(-0.2, 1.1, -0.4);
  device.controllers.right.position.set(0.2, 1.1, -0.4);

  // the emulator calls every grip estimated; that of a tracked controller is not
  Object.defineProperty(XRPose.prototype, 'emulatedPosition', { get: () => emulator.estimated });
  for (const hand of ['left', 'right']) {
    const actuator = device.controllers[hand].inputSource.gamepad.hapticActuators[0];
    actuator.pulse = (intensity, ms) => {
      emulator.pulses.push({ hand, intensity, ms });
      return Promise.resolve(true);
    };
  }

  const request = XRSession.prototype.requestAnimationFrame;
  let space = null;
  const requestSpace = XRSession.prototype.requestReferenceSpace;
  XRSession.prototype.requestReferenceSpace = async function (type) {
    space = await requestSpace.call(this, type);
    return space;
  };
  XRSession.prototype.requestAnimationFrame = function (callback) {
    return request.call(this, (time, frame) => {
      emulator.frames.push(record(time, frame));
      callback(time, frame);
      move();
    });
  };

  /** Where the script wants the hand in the next frame. */
  function move() {
    if (!emulator.path) return;
    const { points, began } = emulator.path;
    const ms = performance.now() - began;
    const at = points.findIndex((point) => point[0] > ms);
    const [a, b] = at > 0 ? [points[at - 1], points[at]] : [points.at(-1), points.at(-1)];
    const share = b[0] > a[0] ? (ms - a[0]) / (b[0] - a[0]) : 0;
    const value = a.map((from, i) => from + share * (b[i] - from));
    const norm = Math.hypot(...value.slice(4, 8));
    const hand = device.controllers.right;
    hand.position.set(value[1], value[2], value[3]);
    hand.quaternion.set(value[4] / norm, value[5] / norm, value[6] / norm, value[7] / norm);
    hand.updateButtonValue('squeeze', value[8]);
    hand.updateButtonValue('trigger', value[9]);
    emulator.pathFrames += 1;
    if (at < 0) emulator.path = null;
  }

  function record(time, frame) {
    const seen = { time, visibility: frame.session.visibilityState, left: null, right: null };
    seen.head = numbers(frame.getViewerPose(space)?.transform);
    for (const source of frame.session.inputSources) {
      seen[source.handedness] = {
        profiles: Array.from(source.profiles),
        grip: numbers(frame.getPose(source.gripSpace, space)?.transform),
        aim: numbers(frame.getPose(source.targetRaySpace, space)?.transform),
        emulated: emulator.estimated,
        values: source.gamepad.buttons.map((button) => button.value),
        pressed: source.gamepad.buttons.map((button) => button.pressed),
        touched: source.gamepad.buttons.map((button) => button.touched),
        axes: source.gamepad.axes.map((axis) => axis ?? 0),
      };
    }
    return seen;
  }

  function numbers(transform) {
    if (!transform) return null;
    const { position: p, orientation: q } = transform;
    return [p.x, p.y, p.z, q.x, q.y, q.z, q.w];
  }
})();
