// Parses text/event-stream (HTML standard, section 9.2.6) as our server writes it, with LF; not what an event means.

// Takes a stream in pieces, however they were cut. What is not complete when it ends was never sent.
export class EventStreamParser {
  #decoder = new TextDecoder();
  #rest = "";

  // Take a piece, and return the events it completes, each with its `event` and its `data`.
  feed(octets) {
    const blocks = (this.#rest + this.#decoder.decode(octets, { stream: true })).split("\n\n");
    this.#rest = blocks.pop();
    return blocks.map(parse).filter(({ data }) => data);
  }
}

const parse = (block) => Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s)));
