// Shows an attachment on the page, as an image or as text. Loaded when it is first needed.

import { eventOf } from "./calendar.js";
import { h, plain, said } from "./dom.js";
import { dayOf, t } from "./words.js";

const PREVIEW_CHARACTERS = 100_000;
// The image types that the server recognises. SVG is not included, because an SVG file is a document that can contain
// scripts and links.
const SENT_IMAGE = /^image\/(?:png|jpeg|gif|webp|avif|bmp)$/;

// Return multi-line text without the characters that hide, reverse or overlay neighbouring characters.
const legible = (text) => text.replaceAll(/\r\n?/g, "\n").replaceAll(/[^\n\t ]+/g, (word) => plain(word));

// Draw a blob under its name; URLs that must be revoked later are added to `urls`.
export const drawPreview = (kind, ...given) => (kind === "image" ? drawImage : drawText)(...given);

function drawImage(blob, name, urls) {
  if (!SENT_IMAGE.test(blob.type)) return h("p.soft", t("not-an-image"));
  const src = URL.createObjectURL(blob);
  urls.push(src);
  const image = h("img", { src, alt: name, error: () => image.replaceWith(h("p.soft", t("not-an-image"))) });
  return image;
}

function drawEvent({ title, where, zone, times }) {
  const line = (name, value) => value && h("div", h("dt", t(name)), said("dd", plain(value)));
  const when = [...new Set(times.map((one) => dayOf(...one)))].join(" – ") + (zone && ` (${zone})`);
  return h("div.event", said("b", plain(title)), h("dl.small", line("event-when", when), line("event-where", where)));
}

async function drawText(blob, name) {
  const text = decode(new Uint8Array(await blob.slice(0, 4 * PREVIEW_CHARACTERS).arrayBuffer()));
  const isCut = text.length > PREVIEW_CHARACTERS || blob.size > 4 * PREVIEW_CHARACTERS;
  const event = eventOf(/^BEGIN:VCALENDAR/.test(text) ? text : "");
  if (event.times[0]) return drawEvent(event);
  return [h("pre", { dir: "auto", tabindex: 0, role: "region", "aria-label": name }, legible(text.slice(0, PREVIEW_CHARACTERS))), isCut && h("p.soft.small", t("preview-cut"))];
}

// Decode text according to its byte order mark, otherwise as UTF-8, or as Windows-1252, in which every byte is valid.
function decode(octets) {
  const [first, second] = octets;
  if (first + second === 0xff + 0xfe) return new TextDecoder(first === 0xff ? "utf-16le" : "utf-16be").decode(octets);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(octets, { stream: true }); // may end in mid-character
  } catch {
    return new TextDecoder("windows-1252").decode(octets);
  }
}
