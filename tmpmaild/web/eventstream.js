// Parses text/event-stream (HTML standard, section 9.2.6): octets in, events out; not what an event means.

// Takes a stream in pieces, however they were cut. What is not complete when it ends was never sent.
export class EventStreamParser {
  #decoder = new TextDecoder();
  #endedInCr = false;
  #line = "";
  #name = "";
  #data = [];

  // Take a piece, and return the events it completes, without their ids: ours stand in the data too.
  feed(octets) {
    const text = this.#decoder.decode(octets, { stream: true });
    if (!text) return [];
    const [rest, ...begun] = text.slice(this.#endedInCr && text[0] === "\n" ? 1 : 0).split(/\r\n|\n|\r/);
    this.#endedInCr = text.endsWith("\r");
    this.#line += rest;
    return begun.flatMap((next) => {
      const events = this.#line ? this.#take(this.#line) : this.#dispatch();
      this.#line = next;
      return events;
    });
  }

  #take(line) {
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (name === "event") this.#name = value;
    if (name === "data") this.#data.push(value);
    return [];
  }

  #dispatch() {
    const events = this.#data.length ? [{ name: this.#name || "message", data: this.#data.join("\n") }] : [];
    this.#name = "";
    this.#data = [];
    return events;
  }
}
