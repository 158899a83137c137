/** One frame of the headset as the host takes it; nothing is left out, nothing is made up. */

/**
 * @param {XRFrame} frame
 * @param {XRReferenceSpace} space local-floor
 * @param {number} timeMs of the frame, on the headset's clock
 * @param {number} sequence
 */
export function frameSample(frame, space, timeMs, sequence) {
  const viewer = frame.getViewerPose(space);
  return {
    type: 'input',
    sequence,
    time_ms: timeMs,
    visibility: frame.session.visibilityState,
    head: viewer ? poseOf(viewer.transform) : null,
    left: controller(frame, space, 'left'),
    right: controller(frame, space, 'right'),
  };
}

/** What is said when frames stop coming: the headset was taken off, or the session ended. */
export function awaySample(visibility, timeMs, sequence) {
  return { type: 'input', sequence, time_ms: timeMs, visibility, head: null, left: null, right: null };
}

/** The tracked controller of a hand, or undefined. */
export function inputOf(session, hand) {
  for (const source of session.inputSources) {
    if (source.handedness === hand && source.gamepad && source.targetRayMode === 'tracked-pointer') {
      return source;
    }
  }
  return undefined;
}

function controller(frame, space, hand) {
  const source = inputOf(frame.session, hand);
  if (!source) return null;
  const grip = source.gripSpace ? frame.getPose(source.gripSpace, space) : null;
  const aim = frame.getPose(source.targetRaySpace, space);
  return {
    profiles: [...source.profiles],
    grip: grip ? poseOf(grip.transform) : null,
    emulated: grip ? grip.emulatedPosition : false,
    aim: aim ? poseOf(aim.transform) : null,
    buttons: Array.from(source.gamepad.buttons, (b) => [b.value, b.pressed, b.touched]),
    axes: Array.from(source.gamepad.axes, Number),
  };
}

function poseOf(transform) {
  const p = transform.position;
  const q = transform.orientation;
  return [p.x, p.y, p.z, q.x, q.y, q.z, q.w];
}
