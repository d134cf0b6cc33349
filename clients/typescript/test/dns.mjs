// A DNS server for TXT records, which the service uses to check senders.

import { createSocket } from "node:dgram";

const TXT = 16;
const NO_SUCH_NAME = 3;

/** Serve `records`, which has a text for each name; `place` is the server's address. */
export async function startResolver(records) {
  const socket = createSocket("udp4");
  socket.on("message", (query, { port, address }) => socket.send(answerTo(query, records), port, address));
  await new Promise((resolve) => socket.bind(0, "127.0.0.1", resolve));
  return { place: `127.0.0.1:${socket.address().port}`, close: () => socket.close() };
}

function answerTo(query, records) {
  const labels = [];
  let at = 12;
  for (; query[at] > 0; at += 1 + query[at]) labels.push(query.toString("latin1", at + 1, at + 1 + query[at]));
  const text = records[labels.join(".").toLowerCase()];
  const isKnown = text !== undefined && query.readUInt16BE(at + 1) === TXT;
  const head = Buffer.concat([query.subarray(0, 2), Buffer.from([0x81, text === undefined ? 0x80 | NO_SUCH_NAME : 0x80, 0, 1, 0, isKnown ? 1 : 0, 0, 0, 0, 0])]);
  const value = Buffer.from(text ?? "");
  const record = Buffer.from([0xc0, 12, 0, TXT, 0, 1, 0, 0, 0, 60, 0, value.length + 1, value.length, ...value]);
  return Buffer.concat([head, query.subarray(12, at + 5), ...(isKnown ? [record] : [])]);
}
