// Parses a search and checks which messages match: words in any order, ignoring case and accents. Quotation marks
// enclose phrases; `from:`, `to:` and `subject:` search one field; `has:code`, `has:link` and `has:attachment` select
// messages with a code, a link or an attachment. Does not access page elements.

const TERM = /(?:(from|to|subject|has):)?(?:"([^"]+)"?|(\S+))/gi;
const UNFINISHED = /(?<!\S)(?:from|to|subject|has):(?!\S)/gi;
const ACCENTS = /[\u0300-\u036f\u064b-\u065f]/g; // in Hindi, combining marks can be vowels
const LETTERS = { ß: "ss", ł: "l", ø: "o", đ: "d", æ: "ae", œ: "oe", ı: "i" }; // not decomposable
const HAS = {
  code: ({ codes }) => codes.length > 0,
  link: ({ links }) => links.length > 0,
  attachment: ({ attachments }) => attachments.some(({ inline }) => !inline),
};

const plainLetters = (text) => text.normalize("NFKD").replaceAll(ACCENTS, "").toLowerCase().replaceAll(/[ßłøđæœı]/g, (one) => LETTERS[one]);

// Return a search's terms, each `{ field, given, text }`, where `text` is `given` in lower case without accents.
export const termsOf = (query) =>
  [...query.replace(UNFINISHED, "").matchAll(TERM)].map(([, field = "", quoted, word]) => {
    const given = quoted ?? word;
    return { field: field.toLowerCase(), given, text: plainLetters(given) };
  });

const texts = new WeakMap(); // texts without accents by message
function textsOf(message) {
  if (!texts.has(message)) {
    const { from, from_name, to, recipients = [], subject, body, codes } = message;
    const [sender, about, all] = [`${from_name} ${from}`, subject, recipients.join("\n")].map(plainLetters);
    const words = [sender, about, all, plainLetters(body), ...codes.map(({ value }) => plainLetters(value))].join("\n");
    texts.set(message, { from: sender, to: all || plainLetters(to), subject: about, "": words });
  }
  return texts.get(message);
}

// Return whether a message matches a term.
export const matches = (message, { field, text }) =>
  field === "has" ? (Object.entries(HAS).find(([name]) => name.startsWith(text))?.[1](message) ?? false) : textsOf(message)[field].includes(text);
