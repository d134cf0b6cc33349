// Draws the headers and the source of a message, and the reasons for the verdict on its sender. Loaded when one of them
// is first shown.

import { ApiError, later } from "./api.js";
import { button, h, plain, said, save } from "./dom.js";
import { cut, SHOWN_CHARACTERS } from "./reader.js";
import { t } from "./words.js";

const TRACE_CHARACTERS = 4000;

// Return the header fields that the server has added to a message, each as a name and a value.
function traceOf(source) {
  const fields = source.split(/\r?\n\r?\n/)[0].replaceAll(/\r?\n[ \t]+/g, " ").split(/\r?\n/).slice(0, 2);
  return fields.map((line) => line.split(/: ?(.*)/s)).filter(([name]) => /^(?:Return-Path|Received)$/.test(name));
}

// Read the source of a message from a response. As soon as the part that is shown has been loaded, returns `start`, a blob
// with at least that part, and `whole`, a promise for the complete source.
export async function sourceOf(response) {
  const fail = () => {
    throw new ApiError(0);
  };
  const stream = response.clone().body.getReader();
  const whole = response.blob().catch(fail);
  whole.catch(() => {}); // the error is shown if the whole source is needed
  const chunks = [];
  for (let size = 0; size <= SHOWN_CHARACTERS; size += chunks.at(-1).length) {
    const { done, value } = await stream.read().catch(fail);
    if (done) break;
    chunks.push(value);
  }
  stream.cancel().catch(() => {}); // an error is reported by `whole`
  return { start: new Blob(chunks), whole };
}

// Draw a message's headers below the fields that the server has added; `start` is the start of the source, a blob.
export async function drawHeaders(headers, start) {
  const source = await start.slice(0, TRACE_CHARACTERS).text();
  const draw = ([name, value]) => h("div", h("dt", name), said("dd", plain(value)));
  return [h("dl.small", { dir: "ltr" }, [...traceOf(source), ...headers].map(draw))];
}

// Draw the start of the source, a blob. One button saves the whole source, to which `load()` resolves, in a file named
// after the message's subject; another button copies the command that reads the message.
export async function drawSource(start, load, subject, curl, { attempt, copy }) {
  const text = await start.slice(0, SHOWN_CHARACTERS).text();
  const saveIt = attempt(async () => {
    const { nameOfFile } = await later("saving");
    save(await load(), nameOfFile(subject, ".eml"));
  });
  return [
    h("p.actions", button("file", t("save-source"), { click: saveIt }), button("copy", t("copy-curl"), { class: "quiet", click: (event) => copy(curl, event) })),
    h("pre", { dir: "ltr" }, text), cut(start.size)];
}

// Draw the result keywords of RFC 8601, and the server's reasons.
export function drawResults({ spf, dkim, dmarc, arc }) {
  const signatures = dkim.length ? dkim : [{ result: "none" }];
  const all = [["SPF", spf], ...signatures.map((one) => ["DKIM", one]), ["DMARC", dmarc], ["ARC", arc]];
  return all.map(([name, one]) => h("div", h("dt", name), said("dd", textOf(one))));
}

function textOf({ result, domain, selector, policy, reason }) {
  const parts = [result, domain, selector && `s=${selector}`, policy && `p=${policy}`, reason];
  return parts.filter(Boolean).map(plain).join(" · ");
}
