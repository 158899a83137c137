/** Numbers for people. */

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/** How long ago, as exactly as it is worth. */
export function seconds(value) {
  if (value < -0.05) return `${value.toFixed(1)} s`;
  if (value < 0.1) return '< 0.1 s';
  if (value < 10) return `${value.toFixed(1)} s`;
  return value < 120 ? `${Math.round(value)} s` : `${Math.round(value / 60)} min`;
}

/** A length of time. */
export function duration(value) {
  if (value < 60) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  const clock = `${Math.floor(whole / 60) % 60}:${String(whole % 60).padStart(2, '0')}`;
  return whole < 3600 ? `${clock} min` : `${Math.floor(whole / 3600)}:${clock.padStart(5, '0')} h`;
}

/** An amount of storage. */
export function size(bytes) {
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(value < 10 && unit > 0 ? 1 : 0)} ${UNITS[unit]}`;
}
