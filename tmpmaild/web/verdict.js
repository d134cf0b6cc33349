// Draws the verdict on a message's sender and, on request, its reasons. Draws nothing while there is no verdict, for
// example on a server that does not check senders.

import { later } from "./api.js";
import { h, icon, plain } from "./dom.js";
import { short } from "./sender.js";
import { knows, t } from "./words.js";

const DOMAIN_CHARACTERS = 60;
const BRIEF_CHARACTERS = 20; // short enough for a row on a phone
const ICONS = { pass: "done", fail: "warn" };

function marked(name, characters, { dmarc, authenticated, from }, failed = "dmarc-fail") {
  const domain = short(plain(authenticated ?? from.split("@").at(-1)), characters);
  const known = knows(`dmarc-${dmarc}`) ? `dmarc-${dmarc}` : "dmarc-none"; // a newer server may return unknown results
  const key = dmarc === "fail" ? failed : known;
  const image = ICONS[dmarc];
  return h(`${name}.is-${dmarc}`, image && icon(image), h(image === "warn" ? "b" : "span", t(key, { domain })));
}

// Draw a short form of the verdict.
export const verdictInBrief = (message) => message.dmarc && marked("bdi.verdict", BRIEF_CHARACTERS, message);

// Draw the verdict, which can be expanded to show its details. `load()` resolves to the API's full message, and
// `attempt` creates a handler that shows errors.
export function verdictOf(message, load, attempt) {
  const { dmarc } = message;
  if (!dmarc) return "";
  // Screen readers only announce the verdict itself.
  const results = h("dl.small", { lang: "en", dir: "ltr", "aria-live": "off" });
  const fill = async ({ target }) => {
    if (!target.open || results.firstChild) return;
    const [{ authentication }, { drawResults }] = [await load(), await later("technical")];
    if (authentication) results.replaceChildren(...drawResults(authentication)); // otherwise the check is still running
  };
  return h("details.small.soft", { toggle: attempt(fill) }, marked("summary", DOMAIN_CHARACTERS, message, "false-claim"), results);
}
