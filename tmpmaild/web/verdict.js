// Draws whether it is proven who sent a mail, and when that is asked for, why. Draws nothing while that is not known, as on
// a server that checks no senders.

import { h, icon, plain, said } from "./dom.js";
import { short } from "./sender.js";
import { knows, t } from "./words.js";

const DOMAIN_CHARACTERS = 60;
const BRIEF_CHARACTERS = 20; // a row on a phone shows them all
const ICONS = { pass: "done", fail: "warn" };

function marked(name, characters, { dmarc, authenticated, from }, failed = "dmarc-fail") {
  const domain = short(plain(authenticated ?? from.split("@").at(-1)), characters);
  const known = knows(`dmarc-${dmarc}`) ? `dmarc-${dmarc}` : "dmarc-none"; // a newer server may know other words
  const key = dmarc === "fail" ? failed : known;
  const image = ICONS[dmarc];
  return h(`${name}.is-${dmarc}`, image && icon(image), h(image === "warn" ? "b" : "span", t(key, { domain })));
}

// Draw the verdict in brief.
export const verdictInBrief = (message) => message.dmarc && marked("bdi.verdict", BRIEF_CHARACTERS, message);

// Draw the verdict, which opens to what it is made of: `load()` resolves to all that the API says of the message, and `attempt`
// makes a handler that shows what goes wrong.
export function verdictOf(message, load, attempt) {
  const { dmarc } = message;
  if (!dmarc) return "";
  // The words of RFC 8601, and reasons as the server gives them. They are not news: only the verdict is read out as it comes.
  const results = h("dl.small", { lang: "en", dir: "ltr", "aria-live": "off" });
  const fill = async ({ target }) => {
    if (!target.open || results.firstChild) return;
    const { authentication } = await load();
    if (authentication) results.append(...resultsOf(authentication)); // else it is being checked now, and the verdict comes
  };
  return h("details.small.soft", { toggle: attempt(fill) }, marked("summary", DOMAIN_CHARACTERS, message, "false-claim"), results);
}

function resultsOf({ spf, dkim, dmarc, arc }) {
  const signatures = dkim.length ? dkim : [{ result: "none" }];
  const all = [["SPF", spf], ...signatures.map((one) => ["DKIM", one]), ["DMARC", dmarc], ["ARC", arc]];
  return all.map(([name, one]) => h("div", h("dt", name), said("dd", textOf(one))));
}

function textOf({ result, domain, selector, policy, reason }) {
  const parts = [result, domain, selector && `s=${selector}`, policy && `p=${policy}`, reason];
  return parts.filter(Boolean).map(plain).join(" · ");
}
