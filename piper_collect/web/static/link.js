/** The socket for state and input: pairs, comes back by itself, and never lets poses queue up. */

const RETRY_MS = [250, 500, 1000, 2000];
/** More than this waiting in the browser means the network is behind: a newer pose will do better. */
const MOST_BUFFERED_BYTES = 12 * 1024;
/** Frames that may be on their way without the host's word that it has them; half a second at 72 Hz. */
const MOST_IN_FLIGHT = 36;
/** The host speaks at least twice a second; after this long without a word the connection is lost. */
const SILENT_MS = 4000;
const PASS_KEY = 'piper_collect.pass';

export class Link extends EventTarget {
  /** @param {string} url of the socket */
  constructor(url) {
    super();
    this.url = url;
    this.about = null; // what the host said of itself
    this.state = null; // the newest state of the session, with `at`: when it came
    this.paired = false;
    this.notice = ''; // why something was refused
    this.sent = 0;
    this.dropped = 0;
    this.roundTripMs = null;
    this.pass = readPass();
    this.inFlight = [];
    this.attempts = 0;
    this.heardAt = 0;
    this.socket = null;
    setInterval(() => this.#watch(), 500);
  }

  open() {
    const socket = new WebSocket(this.url);
    this.socket = socket;
    this.inFlight = [];
    socket.onopen = () => {
      this.attempts = 0;
      this.heardAt = performance.now();
      if (this.pass) this.#say({ type: 'resume', token: this.pass });
      this.#changed();
    };
    socket.onmessage = (event) => {
      if (socket === this.socket) this.#take(JSON.parse(event.data));
    };
    socket.onclose = (event) => {
      if (socket === this.socket) this.#closed(event.reason);
    };
  }

  get connected() {
    return this.socket !== null && this.socket.readyState === WebSocket.OPEN;
  }

  /** Whether the network is behind, so that nothing but poses should be on it. */
  get busy() {
    if (!this.connected) return true;
    return this.socket.bufferedAmount > MOST_BUFFERED_BYTES / 2 || this.inFlight.length > MOST_IN_FLIGHT / 2;
  }

  pair(code) {
    this.notice = '';
    this.#say({ type: 'pair', code });
  }

  askForCode() {
    this.notice = '';
    this.#say({ type: 'code' });
  }

  leave() {
    this.#say({ type: 'leave' });
  }

  /**
   * Send one frame, or drop it where an older one still waits.
   * @returns {boolean} whether it was sent; the gap in `sequence` tells the host of one that was not
   */
  sendInput(message) {
    const free =
      this.connected &&
      this.paired &&
      this.socket.bufferedAmount <= MOST_BUFFERED_BYTES &&
      this.inFlight.length < MOST_IN_FLIGHT;
    if (!free) {
      this.dropped += 1;
      return false;
    }
    this.inFlight.push({ sequence: message.sequence, at: performance.now() });
    this.socket.send(JSON.stringify(message));
    this.sent += 1;
    return true;
  }

  #say(message) {
    if (this.connected) this.socket.send(JSON.stringify(message));
  }

  #take(message) {
    this.heardAt = performance.now();
    switch (message.type) {
      case 'hello':
        this.about = message;
        break;
      case 'state':
        this.state = { ...message, at: this.heardAt };
        break;
      case 'ack':
        this.#acknowledged(message.sequence);
        return;
      case 'pulse':
        this.dispatchEvent(new CustomEvent('pulse', { detail: message }));
        return;
      case 'paired':
        this.paired = true;
        this.notice = '';
        this.#keepPass(message.token);
        break;
      case 'unpaired':
        this.paired = false;
        this.notice = message.reason;
        this.#keepPass('');
        break;
      case 'refused':
        this.notice = message.reason;
        break;
    }
    this.#changed();
  }

  #acknowledged(sequence) {
    while (this.inFlight.length && this.inFlight[0].sequence <= sequence) {
      const frame = this.inFlight.shift();
      if (frame.sequence === sequence) this.roundTripMs = this.heardAt - frame.at;
    }
  }

  #closed(reason) {
    this.paired = false;
    this.inFlight = [];
    this.roundTripMs = null;
    if (reason) this.notice = reason;
    const wait = RETRY_MS[Math.min(this.attempts, RETRY_MS.length - 1)];
    this.attempts += 1;
    this.socket = null;
    setTimeout(() => this.open(), wait);
    this.#changed();
  }

  /** A connection that is dead without saying so is given up. */
  #watch() {
    if (this.connected && performance.now() - this.heardAt > SILENT_MS) {
      const socket = this.socket;
      this.#closed('');
      socket.close();
    }
  }

  #keepPass(pass) {
    this.pass = pass;
    try {
      sessionStorage.setItem(PASS_KEY, pass);
    } catch {
      // without storage the pairing lasts as long as the page
    }
  }

  #changed() {
    this.dispatchEvent(new Event('change'));
  }
}

function readPass() {
  try {
    return sessionStorage.getItem(PASS_KEY) ?? '';
  } catch {
    return '';
  }
}
