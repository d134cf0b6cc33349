// Fills addresses and codes into a tab's page at the user's request, because the browser grants access only then.

import { forAddress, forCode } from "./fields.js";
import { Fault, Service } from "./service.js";
import { keep } from "./state.js";

// Return the host of the page in a tab, or "" if it is not a web page; the browser reveals it only after a click.
export const siteOf = ({ url = "" }) => (/^https?:/.test(url) ? new URL(url).hostname : "");

// Create an address and write it into the page; with `frameId`, into the clicked field in that frame. Return the inbox.
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

// Create an address for the site in the tab.
export async function newInbox(tab) {
  const inbox = { ...(await (await Service.configured()).create()), site: siteOf(tab), isPrivate: tab.incognito };
  await keep(inbox);
  return inbox;
}

// Read the fields of the page and of its accessible frames, and choose among them. Throws a Fault.
async function find(tab, choose, frameId) {
  const { id: tabId } = tab;
  const target = frameId === undefined ? { tabId, allFrames: true } : { tabId, frameIds: [frameId] };
  const run = (script) => chrome.scripting.executeScript({ target, ...script });
  const site = siteOf(tab);
  const why = frameId ? "foreign_frame" : "page_closed";
  const results = await run({ files: ["page.js"] }).then(() => run({ func: () => tmpmaildPage.look() })).catch(() => {
    throw new Fault(why);
  });
  const looks = results.filter(({ result }) => result);
  // The extension always has access to its own service's host, so the tab may have navigated there since the click.
  if (looks.some(({ frameId: frame, result }) => frame === 0 && result.host !== site)) throw new Fault("page_closed");
  const fields = looks.flatMap(({ frameId: frame, result }) => result.fields.map((field, index) => ({ ...field, frame, index })));
  const chosen = choose(fields);
  if (chosen.why) throw new Fault(fields.length === 0 && looks.some(({ result }) => result.hasForeignFrames) ? "foreign_frame" : chosen.why);
  return { ...chosen, fields: chosen.fields.map((index) => fields[index]) };
}

// Fill in the chosen fields, which are all in one frame; `valueOf` returns the value for the field with a given index.
async function write({ id: tabId }, { fields }, valueOf) {
  const target = { tabId, frameIds: [fields[0].frame] };
  const args = [fields.map(({ index }, n) => [index, valueOf(n)])];
  const [answer] = await chrome.scripting.executeScript({ target, func: (values) => tmpmaildPage.write(values), args }).catch(() => []);
  if (!answer?.result) throw new Fault("page_closed");
}
