// The parser of event streams, which is the same in tmpmaild/web/following.js.

// Parses text/event-stream (HTML standard, section 9.2.6) in the form that our server sends (with LF line endings).
// The stream may be split into chunks of any size. An event that is incomplete when the stream ends is discarded.
export class EventStreamParser {
  #decoder = new TextDecoder();
  #rest = "";

  // Parse a chunk, and return the events that it completes, each with its `event` and `data`.
  feed(octets) {
    const blocks = (this.#rest + this.#decoder.decode(octets, { stream: true })).split("\n\n");
    this.#rest = blocks.pop();
    return blocks.map(parse).filter(({ data }) => data);
  }
}

const parse = (block) => Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s)));
