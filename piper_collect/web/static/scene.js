/** What the operator sees in the headset: the plate, the cameras, and in VR a floor and his hands. */

import { Hud, HUD_HEIGHT, HUD_WIDTH } from './hud.js';
import { multiply, place, quatAbout, quatMultiply, rotate, towards, yawOf } from './matrix.js';

const UP = [0, 1, 0];
const RIGHT = [1, 0, 0];
/** The plate: below the line of sight, an arm's length away, leaning back towards the eyes. */
const PLATE = { below: 0.34, ahead: 1.05, width: 0.58, leanRad: -0.3 };
const PLATE_FOLLOWS_PER_S = 7;
/** The cameras stand still until the head has turned this far from them, then come along. */
const PANELS_STAY_RAD = 0.6;
const PANELS_FOLLOW_PER_S = 3;
/** In VR the pictures are all there is to see; before passthrough they leave the middle free. */
const PANEL_LAYOUTS = {
  vr: { ahead: 1.5, width: 0.86, gap: 0.05, pitchRad: 0.0 },
  ar: { ahead: 1.4, width: 0.5, gap: 0.04, pitchRad: 0.3 },
};
const PANEL_ROWS = 64;
const GRID_M = 4;

const QUAD = `#version 300 es
uniform mat4 transform;
out vec2 uv;
void main() {
  uv = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  gl_Position = transform * vec4(uv.x - 0.5, 0.5 - uv.y, 0.0, 1.0);
}`;
const PICTURE = `#version 300 es
precision mediump float;
uniform sampler2D picture;
uniform vec2 size;
uniform float radius;
uniform float grey;
uniform float alpha;
in vec2 uv;
out vec4 colour;
void main() {
  vec2 d = abs((uv - 0.5) * size) - 0.5 * size + radius;
  float outside = min(max(d.x, d.y), 0.0) + length(max(d, 0.0)) - radius;
  float soft = max(fwidth(outside), 1e-5);
  vec4 seen = texture(picture, uv);
  vec3 dull = vec3(dot(seen.rgb, vec3(0.299, 0.587, 0.114))) * 0.45;
  float cover = alpha * seen.a * (1.0 - smoothstep(-soft, soft, outside));
  colour = vec4(mix(seen.rgb, dull, grey) * cover, cover);
}`;
const LINE = `#version 300 es
uniform mat4 transform;
in vec3 position;
out float distance_m;
void main() {
  distance_m = length(position.xz);
  gl_Position = transform * vec4(position, 1.0);
}`;
const SOLID = `#version 300 es
uniform mat4 transform;
uniform mat4 model;
in vec3 position;
out vec3 at;
void main() {
  at = (model * vec4(position, 1.0)).xyz;
  gl_Position = transform * vec4(position, 1.0);
}`;
const SHADED = `#version 300 es
precision mediump float;
uniform vec4 tint;
in vec3 at;
out vec4 colour;
void main() {
  vec3 normal = normalize(cross(dFdx(at), dFdy(at)));
  colour = vec4(tint.rgb * (0.45 + 0.55 * max(dot(normal, normalize(vec3(0.3, 1.0, 0.5))), 0.0)), 1.0);
}`;
const PLAIN = `#version 300 es
precision mediump float;
uniform vec4 tint;
uniform float fade_m;
in float distance_m;
out vec4 colour;
void main() {
  float cover = tint.a * (fade_m > 0.0 ? clamp(1.0 - distance_m / fade_m, 0.0, 1.0) : 1.0);
  colour = vec4(tint.rgb * cover, cover);
}`;

export class Scene {
  /**
   * @param {WebGL2RenderingContext} gl
   * @param {import('./panels.js').Panels} panels
   */
  constructor(gl, panels) {
    this.gl = gl;
    this.panels = panels;
    this.hud = new Hud();
    this.picture = program(gl, QUAD, PICTURE);
    this.line = program(gl, LINE, PLAIN);
    this.solid = program(gl, SOLID, SHADED);
    this.plateTexture = texture(gl, null);
    this.panelTextures = [];
    this.grid = mesh(gl, this.line, gridLines());
    this.hand = mesh(gl, this.solid, handShape());
    this.facing = null; // where the plate is, as a rotation
    this.panelsYaw = null;
    this.drawnAt = 0;
  }

  /** Bring everything up to date once a frame, before the views are drawn. */
  update(link, head, now) {
    const dt = Math.min(0.1, (now - this.drawnAt) / 1000);
    this.drawnAt = now;
    if (this.hud.draw(link, now)) upload(this.gl, this.plateTexture, this.hud.canvas);
    const next = this.panels.next(); // one a frame at most: an upload takes a while
    if (next) {
      this.#panel(next.camera).size = [next.bitmap.width, next.bitmap.height];
      upload(this.gl, this.#panel(next.camera).texture, next.bitmap);
    }
    this.#names();
    if (!head) return;
    const turn = towards(this.facing ?? head.orientation, head.orientation, 1 - Math.exp(-dt * PLATE_FOLLOWS_PER_S));
    this.facing = this.facing ? turn : head.orientation;
    const yaw = yawOf(head.orientation);
    this.panelsYaw ??= yaw;
    const away = Math.atan2(Math.sin(yaw - this.panelsYaw), Math.cos(yaw - this.panelsYaw));
    if (Math.abs(away) > PANELS_STAY_RAD) this.panelsYaw += away * (1 - Math.exp(-dt * PANELS_FOLLOW_PER_S));
    this.head = head;
  }

  /**
   * Draw one view into the viewport that is set.
   * @param {Float32Array} camera projection times inverse of the eye's pose
   * @param {'vr' | 'ar'} mode
   * @param {{position: number[], orientation: number[], tint: number[]}[]} hands
   */
  draw(camera, mode, hands) {
    const gl = this.gl;
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.disable(gl.DEPTH_TEST);
    if (mode === 'vr') this.#floor(camera);
    if (!this.head) return;
    this.#drawPanels(camera, PANEL_LAYOUTS[mode]);
    if (mode === 'vr') hands.forEach((hand) => this.#drawHand(camera, hand));
    this.#drawPlate(camera);
  }

  #drawPlate(camera) {
    const { below, ahead, width, leanRad } = PLATE;
    const offset = rotate(this.facing, [0, -below, -ahead]);
    const at = this.head.position.map((value, i) => value + offset[i]);
    const turn = quatMultiply(this.facing, quatAbout(RIGHT, leanRad));
    const height = (width * HUD_HEIGHT) / HUD_WIDTH;
    this.#quad(camera, place(at, turn, [width, height, 1]), this.plateTexture, [width, height], 0, 0, 1);
  }

  #drawPanels(camera, layout) {
    const now = performance.now();
    const count = this.panels.names.length;
    const step = 2 * Math.atan((layout.width + layout.gap) / 2 / layout.ahead);
    for (let i = 0; i < count; i += 1) {
      const panel = this.#panel(i);
      const turn = quatMultiply(
        quatAbout(UP, this.panelsYaw + ((count - 1) / 2 - i) * step),
        quatAbout(RIGHT, layout.pitchRad),
      );
      const offset = rotate(turn, [0, 0, -layout.ahead]);
      const at = this.head.position.map((value, k) => value + offset[k]);
      const height = (layout.width * panel.size[1]) / panel.size[0];
      const stale = this.panels.isStale(i, now);
      this.#quad(
        camera, place(at, turn, [layout.width, height, 1]), panel.texture, [layout.width, height], 0.02,
        stale ? 1 : 0, 1,
      );
      const label = rotate(turn, [0, -height / 2 + 0.035, 0.003]);
      const labelAt = at.map((value, k) => value + label[k]);
      const labelWidth = (0.05 * panel.label.width) / PANEL_ROWS;
      this.#quad(
        camera, place(labelAt, turn, [labelWidth, 0.05, 1]), panel.labelTexture, [labelWidth, 0.05], 0, 0, 1,
      );
    }
  }

  /** Name of each camera, and that its picture is old where it is. */
  #names() {
    const now = performance.now();
    this.panels.names.forEach((name, i) => {
      const panel = this.#panel(i);
      const picture = this.panels.pictures[i];
      const stale = this.panels.isStale(i, now);
      const seconds = picture?.at ? Math.floor((now - picture.at) / 1000) : null;
      const age = seconds === null ? 'no picture yet' : `${seconds} s old`;
      const reason = this.panels.reason && !picture?.at ? this.panels.reason : age;
      const text = stale ? `${name}: ${reason}` : name;
      if (text === panel.text) return;
      panel.text = text;
      paintLabel(panel.label, text, stale);
      upload(this.gl, panel.labelTexture, panel.label);
    });
  }

  #panel(index) {
    this.panelTextures[index] ??= {
      texture: texture(this.gl, new Uint8Array([18, 24, 36, 255])),
      size: [640, 480],
      label: Object.assign(document.createElement('canvas'), { width: 640, height: PANEL_ROWS }),
      labelTexture: texture(this.gl, null),
      text: '',
    };
    return this.panelTextures[index];
  }

  #quad(camera, model, image, size, radius, grey, alpha) {
    const gl = this.gl;
    gl.useProgram(this.picture.program);
    gl.bindVertexArray(null);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, image);
    gl.uniformMatrix4fv(this.picture.at('transform'), false, multiply(camera, model));
    gl.uniform2fv(this.picture.at('size'), size);
    gl.uniform1f(this.picture.at('radius'), radius);
    gl.uniform1f(this.picture.at('grey'), grey);
    gl.uniform1f(this.picture.at('alpha'), alpha);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
  }

  #floor(camera) {
    const gl = this.gl;
    gl.useProgram(this.line.program);
    gl.bindVertexArray(this.grid.array);
    gl.uniformMatrix4fv(this.line.at('transform'), false, camera);
    gl.uniform4fv(this.line.at('tint'), [0.4, 0.52, 0.7, 0.6]);
    gl.uniform1f(this.line.at('fade_m'), GRID_M);
    gl.drawArrays(gl.LINES, 0, this.grid.count);
    gl.bindVertexArray(null);
  }

  #drawHand(camera, hand) {
    const gl = this.gl;
    const model = place(hand.position, hand.orientation);
    gl.useProgram(this.solid.program);
    gl.bindVertexArray(this.hand.array);
    gl.enable(gl.CULL_FACE); // the shape is convex, so no depth is needed
    gl.uniformMatrix4fv(this.solid.at('transform'), false, multiply(camera, model));
    gl.uniformMatrix4fv(this.solid.at('model'), false, model);
    gl.uniform4fv(this.solid.at('tint'), hand.tint);
    gl.drawArrays(gl.TRIANGLES, 0, this.hand.count);
    gl.disable(gl.CULL_FACE);
    gl.bindVertexArray(null);
  }
}

function paintLabel(canvas, text, stale) {
  const pen = canvas.getContext('2d');
  pen.font = '600 34px system-ui, sans-serif';
  let shown = text;
  while (shown.length > 1 && pen.measureText(shown).width > canvas.width - 48) shown = shown.slice(0, -1);
  const width = pen.measureText(shown).width + 36;
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = stale ? 'rgba(180, 32, 36, 0.92)' : 'rgba(10, 14, 22, 0.7)';
  pen.beginPath();
  pen.roundRect((canvas.width - width) / 2, 6, width, PANEL_ROWS - 12, 24);
  pen.fill();
  pen.fillStyle = '#ffffff';
  pen.textAlign = 'center';
  pen.textBaseline = 'middle';
  pen.fillText(shown, canvas.width / 2, PANEL_ROWS / 2 + 2);
}

function program(gl, vertex, fragment) {
  const made = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made));
  const places = new Map();
  const at = (name) => {
    if (!places.has(name)) places.set(name, gl.getUniformLocation(made, name));
    return places.get(name);
  };
  return { program: made, at };
}

function texture(gl, pixel) {
  const made = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, made);
  gl.texImage2D(
    gl.TEXTURE_2D, 0, gl.RGBA, 1, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, pixel ?? new Uint8Array([0, 0, 0, 0]),
  );
  return made;
}

function upload(gl, target, image) {
  gl.bindTexture(gl.TEXTURE_2D, target);
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, image);
  gl.generateMipmap(gl.TEXTURE_2D);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR_MIPMAP_LINEAR);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
}

function mesh(gl, { program: used }, points) {
  const array = gl.createVertexArray();
  gl.bindVertexArray(array);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(points), gl.STATIC_DRAW);
  const place = gl.getAttribLocation(used, 'position');
  gl.enableVertexAttribArray(place);
  gl.vertexAttribPointer(place, 3, gl.FLOAT, false, 0, 0);
  gl.bindVertexArray(null);
  return { array, count: points.length / 3 };
}

function gridLines() {
  const points = [];
  for (let i = -GRID_M; i <= GRID_M; i += 0.5) {
    for (let k = -GRID_M; k < GRID_M; k += 0.5) points.push(i, 0, k, i, 0, k + 0.5, k, 0, i, k + 0.5, 0, i);
  }
  return points;
}

/** A dart about the grip's origin that points where the hand does: eight faces, seen from outside. */
function handShape() {
  const tip = [0, 0, -0.08];
  const tail = [0, 0, 0.05];
  const rim = [[0.022, 0, 0], [0, 0.022, 0], [-0.022, 0, 0], [0, -0.022, 0]];
  const points = [];
  rim.forEach((corner, i) => {
    const next = rim[(i + 1) % 4];
    points.push(...tip, ...next, ...corner, ...tail, ...corner, ...next);
  });
  return points;
}
