// Displays a message's sender and subject. A name that looks like an address is never shown without the real address.

import { plain } from "./dom.js";
import { domainsIn } from "./domains.js";
import { isSameSite } from "./findings.js";
import { t } from "./words.js";

const NAME_CHARACTERS = 200;
const ADDRESS_CHARACTERS = 48;
const AT = /[@\u24d0\u24b6]/u; // the fullwidth and small forms of "@" have already been normalized

const senderNameOf = ({ from_name }) => plain(from_name.slice(0, NAME_CHARACTERS));

// Return whether the name claims an address or a domain that is not the sender's.
function isClaim(name, from) {
  const alike = name.normalize("NFKC").toLowerCase();
  if (!name || alike === from.toLowerCase()) return false;
  const domain = from.split("@").at(-1).toLowerCase();
  return AT.test(name) || AT.test(alike) || domainsIn(alike).some((claimed) => !isSameSite(claimed, domain));
}

// Return `{ name, address, claim }`: the text to show first, the address if it differs from that text, and the name
// that a dubious sender claims.
export function partsOf(message) {
  const [name, address] = [senderNameOf(message), plain(message.from)];
  if (isClaim(name, address)) return { name: address || t("no-sender"), address: "", claim: name };
  return { name: name || address || t("no-sender"), address: name && name !== address ? address : "", claim: "" };
}

// Return the sender in one line; a long address is shortened in the middle.
export function senderOf(message) {
  const { name, claim } = partsOf(message);
  return claim ? `${short(name, ADDRESS_CHARACTERS)} \u201c${claim}\u201d` : name;
}

export const subjectOf = ({ subject }) => plain(subject) || t("no-subject");

// Shorten a text in the middle; more of its end is kept, because the end of a domain identifies its owner.
export function short(text, characters) {
  if (text.length <= characters) return text;
  const head = Math.floor(characters / 3);
  return `${text.slice(0, head)}\u2026${text.slice(head + 1 - characters)}`;
}
