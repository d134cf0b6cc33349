// Measures each visible piece of text: its content, position, colour and background.
export const MEASURE = () => {
  const seen = (node, box) => {
    if (box.width < 1 || box.height < 1 || box.right <= 0 || box.bottom <= 0) return false;
    for (let one = node.parentElement; one; one = one.parentElement) {
      const style = getComputedStyle(one);
      if (style.opacity === "0" || style.visibility !== "visible" && one === node.parentElement) return false;
      if (style.overflow !== "visible" && one !== document.body && one !== document.documentElement) {
        const outer = one.getBoundingClientRect();
        if (Math.min(outer.right, box.right) - Math.max(outer.left, box.left) < 1) return false;
        if (Math.min(outer.bottom, box.bottom) - Math.max(outer.top, box.top) < 1) return false;
      }
    }
    return true;
  };
  const behind = (node) => {
    for (let one = node.parentElement; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const pieces = [], cells = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.data.replace(/[\s\u00ad\u034f\u200b-\u200d\u2007\ufeff]+/g, " ").trim();
    if (!text || node.parentElement.closest("style, title, script")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (!seen(node, box)) continue;
    const cell = node.parentElement.closest("td, th, div, li, body");
    if (!cells.has(cell)) cells.set(cell, cells.size);
    pieces.push({
      text, cell: cells.get(cell), left: box.left, right: box.right, top: box.top, bottom: box.bottom,
      colours: `${getComputedStyle(node.parentElement).color} on ${behind(node)}`,
      link: !!node.parentElement.closest("a[href^='http'], a[href^='mailto:']"),
    });
  }
  const root = document.documentElement;
  return { pieces, overflow: root.scrollWidth - root.clientWidth, height: root.scrollHeight };
};
