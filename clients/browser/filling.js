// Fills addresses and codes into the page of a tab, when the person has asked for it: only then the browser lets us in.

import { forAddress, forCode } from "./fields.js";
import { Fault, Service } from "./service.js";
import { keep } from "./state.js";

// Return the host of the page in a tab, which the browser tells only after a click of the person; "" if it is not a web page.
export const siteOf = ({ url = "" }) => (/^https?:/.test(url) ? new URL(url).hostname : "");

// Create an address and write it into the page; with `frameId` into the field there that was clicked. Return the inbox.
export async function fillNewAddress(tab, frameId) {
  const place = await find(tab, (fields) => forAddress(fields, { isAsked: frameId !== undefined }), frameId);
  const inbox = await newInbox(tab);
  await write(tab, place, () => inbox.address);
  return inbox;
}

export async function fillAddress(tab, { address }) {
  await write(tab, await find(tab, forAddress), () => address);
}

export async function fillCode(tab, { code }) {
  const place = await find(tab, (fields) => forCode(fields, code));
  const characters = [...code.replaceAll("-", "")];
  await write(tab, place, (n) => (place.isSplit ? characters[n] : code));
}

// Create an address for the site that is shown.
export async function newInbox(tab) {
  const inbox = { ...(await (await Service.configured()).create()), site: siteOf(tab), isPrivate: tab.incognito };
  await keep(inbox);
  return inbox;
}

// Look at the fields of the page, also in frames that the browser lets us into, and choose. Throws a Fault.
async function find(tab, choose, frameId) {
  const { id: tabId } = tab;
  const target = frameId === undefined ? { tabId, allFrames: true } : { tabId, frameIds: [frameId] };
  const run = (script) => chrome.scripting.executeScript({ target, ...script });
  const site = siteOf(tab);
  const why = frameId ? "foreign_frame" : "page_closed";
  const answers = await run({ files: ["page.js"] }).then(() => run({ func: () => tmpmaildPage.look() })).catch(() => {
    throw new Fault(why);
  });
  const looks = answers.filter(({ result }) => result);
  // Our own service's host is always open to us, so the page may have gone there since the person has pressed.
  if (looks.some(({ frameId: frame, result }) => frame === 0 && result.host !== site)) throw new Fault("page_closed");
  const fields = looks.flatMap(({ frameId: frame, result }) => result.fields.map((field, index) => ({ ...field, frame, index })));
  const chosen = choose(fields);
  if (chosen.why) throw new Fault(fields.length === 0 && looks.some(({ result }) => result.hasForeignFrames) ? "foreign_frame" : chosen.why);
  return { ...chosen, fields: chosen.fields.map((index) => fields[index]) };
}

// Write into what was found; `valueOf` is asked for each field by its number. The fields are all in one frame.
async function write({ id: tabId }, { fields }, valueOf) {
  const target = { tabId, frameIds: [fields[0].frame] };
  const args = [fields.map(({ index }, n) => [index, valueOf(n)])];
  const [answer] = await chrome.scripting.executeScript({ target, func: (values) => tmpmaildPage.write(values), args }).catch(() => []);
  if (!answer?.result) throw new Fault("page_closed");
}
