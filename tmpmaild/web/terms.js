// Reads a search and tells which messages match: words in any order, without regard to case and accents; quotation marks keep
// words together, `from:` and `subject:` search one field, and `has:code`, `has:link` and `has:attachment` what a message has.
// Touches nothing of the page.

const TERM = /(?:(from|subject|has):)?(?:"([^"]+)"?|(\S+))/gi;
const UNFINISHED = /(?<!\S)(?:from|subject|has):(?!\S)/gi;
const ACCENTS = /[\u0300-\u036f\u064b-\u065f]/g; // in Hindi marks are vowels
const LETTERS = { ß: "ss", ł: "l", ø: "o", đ: "d", æ: "ae", œ: "oe", ı: "i" }; // that are no letter with a mark
const HAS = {
  code: ({ codes }) => codes.length > 0,
  link: ({ links }) => links.length > 0,
  attachment: ({ attachments }) => attachments.some(({ inline }) => !inline),
};

const fold = (text) => text.normalize("NFKD").replaceAll(ACCENTS, "").toLowerCase().replaceAll(/[ßłøđæœı]/g, (one) => LETTERS[one]);

// Return the terms of a search, each `{ field, given, text }`, where `text` is what was given without case and accents.
export const termsOf = (query) =>
  [...query.replace(UNFINISHED, "").matchAll(TERM)].map(([, field = "", quoted, word]) => {
    const given = quoted ?? word;
    return { field: field.toLowerCase(), given, text: fold(given) };
  });

const texts = new WeakMap(); // of messages, folded once
function textsOf(message) {
  if (!texts.has(message)) {
    const { from, from_name, subject, body, codes } = message;
    const [sender, about] = [`${from_name} ${from}`, subject].map(fold);
    texts.set(message, { from: sender, subject: about, "": [sender, about, fold(body), ...codes.map(({ value }) => fold(value))].join("\n") });
  }
  return texts.get(message);
}

// Tell whether a message matches a term.
export const matches = (message, { field, text }) =>
  field === "has" ? (Object.entries(HAS).find(([name]) => name.startsWith(text))?.[1](message) ?? false) : textsOf(message)[field].includes(text);
