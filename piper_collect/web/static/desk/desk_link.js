/** The socket for the state of the session. It says who wants to look, and nothing more. */

const RETRY_MS = [250, 500, 1000, 2000];
/** The host speaks five times a second; after this long without a word what is shown is old. */
const SILENT_MS = 2000;
const KEY = 'piper_collect.desk_key';

export class DeskLink extends EventTarget {
  /** @param {string} url of the socket */
  constructor(url) {
    super();
    this.url = url;
    this.about = null; // what the host said of itself
    this.state = null; // the newest state, with `at`: when it came
    this.episodes = [];
    this.reference = null;
    this.reason = ''; // why the host closed the socket
    this.paired = true; // for the words of the plate, which are the headset's
    this.busy = false; // pictures need not make room for poses here
    this.pass = offeredKey() ?? kept();
    this.attempts = 0;
    this.heardAt = null;
    this.socket = null;
    setInterval(() => this.#watch(), 250);
  }

  open() {
    const socket = new WebSocket(this.url);
    this.socket = socket;
    this.openedAt = performance.now();
    socket.onopen = () => socket.send(JSON.stringify({ type: 'watch', token: this.pass }));
    socket.onmessage = (event) => {
      if (socket === this.socket) this.#take(JSON.parse(event.data));
    };
    socket.onclose = (event) => {
      if (socket === this.socket) this.#closed(event.reason);
    };
  }

  /** Whether what is shown is of now. */
  get connected() {
    return this.socket !== null && this.state !== null && this.state.socket === this.socket;
  }

  /** Try the key that a person has typed. */
  unlock(key) {
    this.pass = key;
    keep(key);
    this.attempts = 0;
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.open();
  }

  #take(message) {
    this.heardAt = performance.now();
    this.attempts = 0;
    this.reason = '';
    if (message.type === 'hello') this.about = message;
    else if (message.type === 'state') this.state = { ...message, at: this.heardAt, socket: this.socket };
    else if (message.type === 'episodes') this.episodes = message.rows;
    else if (message.type === 'reference') this.reference = message;
    this.dispatchEvent(new CustomEvent('change', { detail: message.type }));
  }

  #closed(reason) {
    this.reason = reason;
    const wait = RETRY_MS[Math.min(this.attempts, RETRY_MS.length - 1)];
    this.attempts += 1;
    this.socket = null;
    setTimeout(() => {
      if (this.socket === null) this.open();
    }, wait);
    this.dispatchEvent(new CustomEvent('change', { detail: 'closed' }));
  }

  /** A connection that is dead without saying so is given up. */
  #watch() {
    const since = Math.max(this.heardAt ?? 0, this.openedAt ?? 0);
    if (this.socket !== null && performance.now() - since > SILENT_MS) {
      const socket = this.socket;
      this.#closed('');
      socket.close();
    }
  }
}

/** The key that came with the address; taken out of it at once. */
function offeredKey() {
  const key = new URLSearchParams(location.hash.slice(1)).get('key');
  if (!key) return null;
  history.replaceState(null, '', location.pathname);
  keep(key);
  return key;
}

function kept() {
  try {
    return sessionStorage.getItem(KEY) ?? '';
  } catch {
    return '';
  }
}

function keep(key) {
  try {
    sessionStorage.setItem(KEY, key);
  } catch {
    // without storage the key lasts as long as the page
  }
}
