// Draws the headers and the source of a message. Loaded when one of them is first shown.

import { later } from "./api.js";
import { button, h, plain, said, save } from "./dom.js";
import { cut, SHOWN_CHARACTERS } from "./reader.js";
import { t } from "./words.js";

const TRACE_CHARACTERS = 4000;

// Return the fields that the server has put above a message, each with its name.
function traceOf(source) {
  const fields = source.split(/\r?\n\r?\n/)[0].replaceAll(/\r?\n[ \t]+/g, " ").split(/\r?\n/).slice(0, 2);
  return fields.map((line) => line.split(/: ?(.*)/s)).filter(([name]) => /^(?:Return-Path|Received)$/.test(name));
}

// Draw the headers of a message after those that its source, a blob, has above it.
export async function drawHeaders(headers, raw) {
  const source = await raw.slice(0, TRACE_CHARACTERS).text();
  const draw = ([name, value]) => h("div", h("dt", name), said("dd", plain(value)));
  return [h("dl.small", { dir: "ltr" }, [...traceOf(source), ...headers].map(draw))];
}

// Draw the source, a blob, with a button that saves it by its subject, and one for the command that reads the message.
export async function drawSource(raw, subject, curl, { attempt, copy }) {
  const text = await raw.slice(0, SHOWN_CHARACTERS).text();
  const saveIt = attempt(async () => {
    const { nameOfFile } = await later(import("./saving.js"));
    save(raw, nameOfFile(subject, ".eml"));
  });
  return [
    h("p.actions", button("file", t("save-source"), { click: saveIt }), button("copy", t("copy-curl"), { class: "quiet", click: (event) => copy(curl, event) })),
    h("pre", { dir: "ltr" }, text), cut(raw.size)];
}
