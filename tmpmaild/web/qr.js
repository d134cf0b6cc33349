// Turns text into a QR code (ISO/IEC 18004:2015): byte mode, UTF-8, error correction level M. Draws nothing. Always
// uses the chequered mask, because text that contains a token has no large uniform areas to break up.

const QUIET = 4; // the number of modules on each side (9.1)

// By version: data codewords, blocks, and error correction codewords per block (tables 7 and 9).
const CODEWORDS = [
  [16, 1, 10], [28, 1, 16], [44, 1, 26], [64, 2, 18], [86, 2, 24], [108, 4, 16], [124, 4, 18], [154, 4, 22],
  [182, 5, 22], [216, 5, 26], [254, 5, 30], [290, 8, 22], [334, 9, 22], [365, 9, 24], [415, 10, 24],
];

// Format information for level M with mask 0, and version information for versions 7 and higher (annexes C and D).
const FORMAT = 0x5412;
const VERSIONS = [0x7c94, 0x85bc, 0x9a99, 0xa4d3, 0xbbf6, 0xc762, 0xd847, 0xe60d, 0xf928];

const range = (length) => [...Array(length).keys()];
const binary = (value, width = 8) => value.toString(2).padStart(width, "0");

// Return the rows of modules, 1 for dark and 0 for light, without the quiet zone. Throws RangeError if the text does
// not fit version 15.
export function qrModules(text) {
  const bytes = [...new TextEncoder().encode(text)];
  const version = 1 + CODEWORDS.findIndex(([room], index) => bytes.length + (index < 9 ? 2 : 3) <= room);
  if (!version) throw new RangeError("too long for a QR code of version 15");
  return symbol(version, codewords(bytes, version).map((byte) => binary(byte)).join(""));
}

// Return `d` for a filled SVG path, and `size`, the side length of its square including the quiet zone; a module has a
// width of 1.
export function qrPath(text) {
  const rows = qrModules(text).map((row) => row.join(""));
  const bar = ({ 0: run, index }, y) => `M${index + QUIET} ${y + QUIET}h${run.length}v1h-${run.length}z`;
  const d = rows.flatMap((row, y) => [...row.matchAll(/1+/g)].map((run) => bar(run, y))).join("");
  return { d, size: rows.length + 2 * QUIET };
}

// Pad the data (7.4), and interleave its blocks, with shorter blocks first, followed by the error correction blocks
// (7.5, 7.6).
function codewords(bytes, version) {
  const [room, count, degree] = CODEWORDS[version - 1];
  const length = binary(bytes.length, version < 10 ? 8 : 16);
  const padded = ["0100", length, ...bytes.map((byte) => binary(byte)), "0000", "1110110000010001".repeat(room)].join("");
  const data = padded.match(/.{8}/g).slice(0, room).map((byte) => parseInt(byte, 2));
  const blocks = range(count).map((index) => data.splice(0, data.length / (count - index)));
  const inTurn = (lists) => lists.at(-1).flatMap((_, index) => lists.flatMap((list) => list[index] ?? []));
  return [...inTurn(blocks), ...inTurn(blocks.map((block) => remainder(block, degree)))];
}

// Multiply in GF(256), modulo x⁸ + x⁴ + x³ + x² + 1.
const times = (a, b) => b && (b & 1 && a) ^ times((a << 1) ^ (a > 127 && 0x11d), b >> 1);

// Return the remainder of dividing by the first `degree` factors of (x - 1)(x - 2)(x - 4)… (annex A).
function remainder(block, degree) {
  let divisor = [1];
  for (let root = 1; divisor.length <= degree; root = times(root, 2)) {
    divisor = [...divisor, 0].map((value, index) => value ^ times(divisor[index - 1] ?? 0, root));
  }
  const step = (rest, byte) => divisor.slice(1).map((value, index) => (rest[index + 1] ?? 0) ^ times(value, rest[0] ^ byte));
  return block.reduce(step, Array(degree).fill(0));
}

// Place the bits in two-module-wide columns, starting from the right, alternately upwards and downwards (7.7.3).
function symbol(version, bits) {
  const grid = functionPatterns(version);
  const size = grid.length;
  drawInformation(grid, version);
  let next = 0;
  for (let right = size - 1; right > 0; right -= right === 8 ? 3 : 2) {
    for (const step of range(2 * size)) {
      const r = (right + 1) & 2 ? step >> 1 : size - 1 - (step >> 1);
      const c = right - (step % 2);
      grid[r][c] ??= bits[next++] ^ ((r + c + 1) % 2);
    }
  }
  return grid;
}

// Return rows with the finder, timing and alignment patterns (6.3, annex E), undefined elsewhere.
function functionPatterns(version) {
  const size = 17 + 4 * version;
  const gaps = version > 1 ? Math.floor(version / 7) + 1 : 0;
  const gap = 2 * Math.ceil((size - 13) / gaps / 2);
  const centres = [6, ...range(gaps).map((index) => size - 7 - index * gap)];
  const off = (at, points) => Math.min(...points.map((point) => Math.abs(at - point)));
  const ring = (r, c, points) => Math.max(off(r, points), off(c, points));
  const module = (r, c) => {
    const around = r > 8 && c > 8 ? 9 : ring(r, c, [3, size - 4]);
    if (around < 5) return [1, 1, 0, 1, 0][around];
    if (r === 6 || c === 6) return (r + c + 1) % 2;
    return around > 5 ? [1, 0, 1][ring(r, c, centres)] : undefined; // alignment patterns must not overlap finders
  };
  return range(size).map((r) => range(size).map((c) => module(r, c)));
}

// Draw the format and version information, each twice, and the dark module (7.9, 7.10).
function drawInformation(grid, version) {
  const size = grid.length;
  for (const index of range(15)) {
    const bit = (FORMAT >> index) & 1;
    grid[index < 8 ? index + (index > 5) : size - 15 + index][8] = bit;
    grid[8][index < 8 ? size - 1 - index : 14 - index + (index < 9)] = bit;
  }
  grid[size - 8][8] = 1;
  for (const index of range(version < 7 ? 0 : 18)) {
    const [near, far] = [Math.floor(index / 3), size - 11 + (index % 3)];
    grid[near][far] = grid[far][near] = (VERSIONS[version - 7] >> index) & 1;
  }
}
