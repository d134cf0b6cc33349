// How a mail's sender and subject are named. A name that looks like an address never stands without the real one.

import { plain } from "./dom.js";
import { domainsIn } from "./domains.js";
import { isSameSite } from "./findings.js";
import { t } from "./words.js";

const NAME_CHARACTERS = 200;
const ADDRESS_CHARACTERS = 48;
const AT = /[@\u24d0\u24b6]/u; // the fullwidth and the small one become this one before

const senderNameOf = ({ from_name }) => plain(from_name.slice(0, NAME_CHARACTERS));

// Tell whether the name claims to be an address, or a domain, that is not the sender's.
function isClaim(name, from) {
  const alike = name.normalize("NFKC").toLowerCase();
  if (!name || alike === from.toLowerCase()) return false;
  const domain = from.split("@").at(-1).toLowerCase();
  return AT.test(name) || AT.test(alike) || domainsIn(alike).some((claimed) => !isSameSite(claimed, domain));
}

// Return `{ name, address, claim }`: what to show first, the address where that is another, and what a doubtful
// sender calls himself.
export function partsOf(message) {
  const [name, address] = [senderNameOf(message), plain(message.from)];
  if (isClaim(name, address)) return { name: address || t("no-sender"), address: "", claim: name };
  return { name: name || address || t("no-sender"), address: name && name !== address ? address : "", claim: "" };
}

// Return the sender in one line; of a long address both ends stay.
export function senderOf(message) {
  const { name, claim } = partsOf(message);
  return claim ? `${short(name, ADDRESS_CHARACTERS)} \u201c${claim}\u201d` : name;
}

export const subjectOf = ({ subject }) => plain(subject) || t("no-subject");

// Cut a text in its middle; its end stays longer, for there a domain shows whose it is.
export function short(text, characters) {
  if (text.length <= characters) return text;
  const head = Math.floor(characters / 3);
  return `${text.slice(0, head)}\u2026${text.slice(head + 1 - characters)}`;
}
