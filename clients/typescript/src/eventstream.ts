// Parses the bytes of Server-Sent Events (HTML standard, section 9.2.6), without interpreting the events.

const MAX_EVENT_CHARACTERS = 64 * 1024 * 1024;

/** One event; `id` is null if the event itself has no id. */
export interface ServerSentEvent {
  name: string;
  data: string;
  id: string | null;
}

/** Parses a stream in chunks of any size. An event that is incomplete when the stream ends is discarded. */
export class EventStreamParser {
  /** The time to wait before reconnecting, if the stream has set it. */
  retryMs: number | null = null;
  readonly #decoder = new TextDecoder();
  #endedInCr = false;
  #line: string[] = [];
  #data: string[] = [];
  #characters = 0;
  #name = "";
  #id: string | null = null;

  /** Parse a chunk, and return the events that it completes. Throws RangeError if an event is too long. */
  feed(octets: Uint8Array): ServerSentEvent[] {
    let text = this.#decoder.decode(octets, { stream: true });
    if (this.#endedInCr && text !== "") {
      text = text.startsWith("\n") ? text.slice(1) : text;
      this.#endedInCr = false;
    }
    if (text === "") return [];
    this.#endedInCr = text.endsWith("\r");
    const [first = "", ...others] = text.split(/\r\n|\n|\r/);
    this.#begin(first);
    const events: ServerSentEvent[] = [];
    for (const begun of others) {
      const line = this.#line.join("");
      this.#line = [];
      events.push(...this.#takeLine(line));
      this.#begin(begun);
    }
    return events;
  }

  #begin(text: string): void {
    this.#line.push(text);
    this.#characters += text.length;
    if (this.#characters > MAX_EVENT_CHARACTERS) throw new RangeError("an event without end");
  }

  #takeLine(line: string): ServerSentEvent[] {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#name = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^[0-9]{1,9}$/.test(value)) this.retryMs = Number(value);
    return [];
  }

  #dispatch(): ServerSentEvent[] {
    const event = { name: this.#name || "message", data: this.#data.join("\n"), id: this.#id };
    const hasData = this.#data.length > 0;
    [this.#name, this.#data, this.#id, this.#characters] = ["", [], null, 0];
    return hasData ? [event] : [];
  }
}
