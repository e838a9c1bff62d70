// link.js — the live link: one WebSocket for each page, from the server to the browser only.
// Frames that change a transcript carry s, the number of the newest event that they show, and f,
// that of the first one. The page was rendered at data-seq, so "after data-seq" misses nothing.
const WATCHDOG_MS = 35_000;
const LONGEST_WAIT_MS = 15_000;
const ASK_AGAIN_MS = 3_000;

export class Link {
  constructor(url, listeners) {
    Object.assign(this, { url, listeners });
    this.cursors = new Map(); // session → number of the last event that has been taken
    this.asked = new Map(); // session → when it was last asked for what is missing
    this.tries = 0;
    this.wasOpen = false;
    this.isSignedOut = false;
    this.isLeaving = false;
    for (const name of ["online", "focus"]) addEventListener(name, () => this.check());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.check(); });
    addEventListener("pagehide", () => { this.isLeaving = true; this.socket?.close(1000); });
    addEventListener("pageshow", () => { this.isLeaving = false; this.check(); }); // also when Back brings it out of the cache
    setInterval(() => { if (this.isLive && performance.now() - this.heardAt > WATCHDOG_MS) this.drop(); }, 5_000);
  }
  get isLive() { return this.socket?.readyState === WebSocket.OPEN; }

  follow(session, seq) {
    this.cursors.set(session, seq);
    this.asked.delete(session);
    if (this.isLive) this.ask(session); else this.open();
  }
  leave(session) {
    if (this.cursors.delete(session) && this.isLive) this.socket.send(JSON.stringify({ t: "unsub", sid: session }));
  }
  ask(session) {
    this.asked.set(session, performance.now());
    this.socket.send(JSON.stringify({ t: "sub", sid: session, after: this.cursors.get(session) }));
  }
  open() {
    if (this.isSignedOut || (this.socket && this.socket.readyState < WebSocket.CLOSING)) return;
    clearTimeout(this.timer);
    this.listeners.connection("connecting", 0);
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.onopen = () => {
      this.heardAt = performance.now();
      this.tries = 0;
      this.listeners.connection("live", 0);
      for (const session of this.cursors.keys()) this.ask(session);
      if (this.wasOpen) this.listeners.bus("console.resync", {});
      this.wasOpen = true;
    };
    socket.onmessage = (event) => {
      if (socket !== this.socket) return;
      this.heardAt = performance.now();
      this.take(JSON.parse(event.data));
    };
    socket.onclose = (event) => { if (socket === this.socket) this.closed(event.code); };
  }
  closed(code) {
    if (this.isLeaving) return;
    if (code === 4401) {
      this.isSignedOut = true;
      this.listeners.connection("signed-out", 0);
      return;
    }
    if (code === 4403) { // trying again by itself would not help
      this.tries = 0;
      this.listeners.connection("refused", 0);
      return;
    }
    const wait = Math.min(LONGEST_WAIT_MS, 500 * 2 ** this.tries++) * (0.5 + Math.random() / 2);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), wait);
    this.listeners.connection("connecting", wait);
  }
  // A socket that says nothing may take minutes to notice that it is dead.
  drop() {
    const dead = this.socket;
    this.socket = undefined;
    dead?.close();
    this.closed(1006);
  }
  check() { if (!this.socket || this.socket.readyState > WebSocket.OPEN) { this.tries = 0; this.open(); } }

  take(frame) {
    if (frame.t === "ping" || frame.t === "hello") return this.listeners.hello(frame);
    if (frame.t === "bus") return this.listeners.bus(frame.topic, frame.data);
    const at = this.cursors.get(frame.sid);
    if (at === undefined) return undefined;
    if (frame.t === "state") return this.listeners.status(frame);
    if (frame.t === "gone") return this.listeners.gone(frame);
    if (frame.t === "reset") {
      this.cursors.set(frame.sid, frame.s);
      this.asked.delete(frame.sid);
      return this.listeners.reset(frame);
    }
    if (frame.t !== "ops" || frame.s <= at) return undefined; // already shown
    const first = frame.f ?? frame.s;
    if (first !== at + 1) return this.askAgain(frame.sid); // a gap, or a frame that overlaps
    this.cursors.set(frame.sid, frame.s);
    this.asked.delete(frame.sid);
    return this.listeners.ops(frame);
  }
  askAgain(session) {
    if (performance.now() - (this.asked.get(session) ?? -Infinity) > ASK_AGAIN_MS || !this.asked.has(session)) this.ask(session);
  }
}
