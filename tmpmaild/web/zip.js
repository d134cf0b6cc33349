// Packs files into one ZIP archive without compressing them (PKWARE APPNOTE 6.3.3). Does not access page elements.

const HEADER = { local: 0x04034b50, central: 0x02014b50, end: 0x06054b50 };
const VERSION = 20;
const UTF8_NAMES = 0x0800;
const MAX_NAME_CHARACTERS = 120;
const RESERVED = /^(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)/i; // Windows device names, with any extension
const CRCS = Uint32Array.from({ length: 256 }, (_, octet) => {
  let crc = octet;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

function crc32(octets) {
  let crc = -1;
  for (const octet of octets) crc = CRCS[(crc ^ octet) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

// Return a file name that cannot escape the extraction folder on any system.
export function safeName(name) {
  const kept = name.replaceAll(/[\p{C}\p{Zl}\p{Zp}/\\:*?"<>|]+/gu, "_").replace(/^[\s.~-]+/, "").replace(RESERVED, "_$1");
  const [, stem, extension] = /^(.*?)(\.[^.]{1,10})?$/.exec(kept);
  return (shorten(stem) + (extension ?? "")).replace(/[\s.]+$/, "") || "file";
}

const shorten = (text) => [...text].slice(0, MAX_NAME_CHARACTERS).join("");

// Return the names, modified to be distinct even on systems that ignore case.
export function distinct(names) {
  const taken = new Set();
  const counts = new Map(); // the next number to try for each name
  return names.map((name) => {
    let [free, n] = [name, counts.get(folded(name)) ?? 2];
    for (; taken.has(folded(free)); n++) free = name.replace(/(\.[^.]*)?$/, ` (${n})$1`);
    counts.set(folded(name), n);
    taken.add(folded(free));
    return free;
  });
}

const folded = (name) => name.normalize("NFC").toLowerCase();

// Return integers as little-endian bytes; each integer is [value, number of bytes].
function packed(...fields) {
  return Uint8Array.from(fields.flatMap(([value, size]) => Array.from({ length: size }, (_, at) => (value >>> (8 * at)) & 255)));
}

// MS-DOS times start in 1980, and have a resolution of two seconds.
function dosTime(date) {
  const day = ((Math.max(1980, date.getFullYear()) - 1980) << 9) | ((date.getMonth() + 1) << 5) | date.getDate();
  return [[(date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1), 2], [day, 2]];
}

// Return an archive of files, each `{ name, blob }`, as a blob; `date` is the modification time of all files.
export async function zip(files, date) {
  const names = distinct(files.map(({ name }) => safeName(name)));
  const [parts, directory] = [[], []];
  let offset = 0;
  for (const [index, { blob }] of files.entries()) {
    const name = new TextEncoder().encode(names[index]);
    const crc = crc32(new Uint8Array(await blob.arrayBuffer()));
    const about = [[VERSION, 2], [UTF8_NAMES, 2], [0, 2], ...dosTime(date), [crc, 4], [blob.size, 4], [blob.size, 4], [name.length, 2], [0, 2]];
    parts.push(packed([HEADER.local, 4], ...about), name, blob);
    directory.push(packed([HEADER.central, 4], [VERSION, 2], ...about, [0, 10], [offset, 4]), name);
    offset += 30 + name.length + blob.size;
  }
  const size = directory.reduce((sum, { length }) => sum + length, 0);
  const counts = [[files.length, 2], [files.length, 2]];
  const end = packed([HEADER.end, 4], [0, 4], ...counts, [size, 4], [offset, 4], [0, 2]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}
