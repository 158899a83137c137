/** The few 4x4 matrices (column-major) and quaternions [x, y, z, w] that drawing needs. */

export function multiply(a, b) {
  const out = new Float32Array(16);
  for (let column = 0; column < 4; column += 1) {
    for (let row = 0; row < 4; row += 1) {
      let sum = 0;
      for (let k = 0; k < 4; k += 1) sum += a[k * 4 + row] * b[column * 4 + k];
      out[column * 4 + row] = sum;
    }
  }
  return out;
}

/** Rotation and translation, then scale of the x and y axes. */
export function place([x, y, z], [qx, qy, qz, qw], [sx, sy, sz] = [1, 1, 1]) {
  return new Float32Array([
    sx * (1 - 2 * (qy * qy + qz * qz)), sx * 2 * (qx * qy + qz * qw), sx * 2 * (qx * qz - qy * qw), 0,
    sy * 2 * (qx * qy - qz * qw), sy * (1 - 2 * (qx * qx + qz * qz)), sy * 2 * (qy * qz + qx * qw), 0,
    sz * 2 * (qx * qz + qy * qw), sz * 2 * (qy * qz - qx * qw), sz * (1 - 2 * (qx * qx + qy * qy)), 0,
    x, y, z, 1,
  ]);
}

/** Inverse of a matrix that only turns and shifts. */
export function invertRigid(m) {
  const t = [m[12], m[13], m[14]];
  const dot = (i) => -(m[i] * t[0] + m[i + 1] * t[1] + m[i + 2] * t[2]);
  return new Float32Array([
    m[0], m[4], m[8], 0, m[1], m[5], m[9], 0, m[2], m[6], m[10], 0, dot(0), dot(4), dot(8), 1,
  ]);
}

export function perspective(verticalRad, aspect, near = 0.05, far = 50) {
  const f = 1 / Math.tan(verticalRad / 2);
  const depth = 1 / (near - far);
  return new Float32Array([
    f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) * depth, -1, 0, 0, 2 * far * near * depth, 0,
  ]);
}

export function quatMultiply([ax, ay, az, aw], [bx, by, bz, bw]) {
  return [
    aw * bx + ax * bw + ay * bz - az * by,
    aw * by - ax * bz + ay * bw + az * bx,
    aw * bz + ax * by - ay * bx + az * bw,
    aw * bw - ax * bx - ay * by - az * bz,
  ];
}

export function quatAbout(axis, angleRad) {
  const s = Math.sin(angleRad / 2);
  return [axis[0] * s, axis[1] * s, axis[2] * s, Math.cos(angleRad / 2)];
}

export function rotate([qx, qy, qz, qw], [x, y, z]) {
  const tx = 2 * (qy * z - qz * y);
  const ty = 2 * (qz * x - qx * z);
  const tz = 2 * (qx * y - qy * x);
  return [
    x + qw * tx + qy * tz - qz * ty,
    y + qw * ty + qz * tx - qx * tz,
    z + qw * tz + qx * ty - qy * tx,
  ];
}

/** A turn from a towards b, by the share t, on the shorter way. */
export function towards(a, b, t) {
  const sign = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3] < 0 ? -1 : 1;
  const mixed = a.map((value, i) => value + t * (sign * b[i] - value));
  const norm = Math.hypot(...mixed) || 1;
  return mixed.map((value) => value / norm);
}

/** The turn about the vertical that the head's forward direction has, in rad. */
export function yawOf(orientation) {
  const forward = rotate(orientation, [0, 0, -1]);
  return Math.atan2(-forward[0], -forward[2]);
}
