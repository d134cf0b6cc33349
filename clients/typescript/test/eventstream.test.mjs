// Tests the event stream parser with bytes split into chunks at any position.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EventStreamParser } from "../dist/esm/eventstream.js";

const TEXT = "\ufeff: heartbeat\r\nretry: 25\rid: 1\ndata: é\ndata:two\n\nevent: expired\r\n\r\nevent: x\rdata\r\rdata: cut";
const EVENTS = [
  { name: "message", data: "é\ntwo", id: "1" },
  { name: "x", data: "", id: null },
];

test("events are the same in pieces of every size", () => {
  const octets = new TextEncoder().encode(TEXT);
  for (let size = 1; size <= octets.length; size++) {
    const parser = new EventStreamParser();
    const events = [];
    for (let at = 0; at < octets.length; at += size) events.push(...parser.feed(octets.subarray(at, at + size)));
    assert.deepEqual([events, parser.retryMs], [EVENTS, 25]);
  }
});

test("an event without end is refused", () => {
  const parser = new EventStreamParser();
  const piece = new Uint8Array(16 * 1024 * 1024).fill(120);
  for (let count = 0; count < 4; count++) parser.feed(piece);
  assert.throws(() => parser.feed(piece), RangeError);
});
