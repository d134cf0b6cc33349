// Fits a mail to its frame: its width, which is measured and not guessed from its styles, its height, and the colour below it.

const MOST_PX = 30_000;
const MOST_CHANGES = 30; // a mail that is higher than its frame, however high that is, would grow for ever
const MOST_ELEMENTS = 4000; // that are measured
const MOST_TURNS = 4; // what is as wide as its frame grows when it is made smaller
const SMALLEST = 0.25;
const LEGIBLE = 0.5; // below it lines that are laid out are broken
const CLIPS_FROM_PX = 100; // what is narrower hides its text on purpose
const MARGINS_PX = 17; // of a page that says nothing of them, and a pixel that is rounded
const EARLY_MS = 100;

// Return how wide a mail is at its own size, from what is furthest left to what is furthest right.
function widthOf({ documentElement: root, body }) {
  let [left, right] = [0, root.scrollWidth];
  for (const element of [...body.getElementsByTagName("*")].slice(0, MOST_ELEMENTS)) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.height === 0 || box.right < 0) continue;
    left = Math.min(left, box.left);
    const { clientWidth, scrollWidth } = element;
    const isCut = scrollWidth > clientWidth + 1 && clientWidth >= CLIPS_FROM_PX && getComputedStyle(element).overflowX === "hidden";
    if (isCut) right = Math.max(right, box.left + scrollWidth);
  }
  return right - left;
}

function scale({ body }, size) {
  for (const name of ["zoom", "--fit"]) body.style.setProperty(name, size, "important");
}

// Make a mail so small that all of its width is in sight; return its size, 1 where it fits as it is.
function fitWidth(page) {
  const { documentElement: root } = page;
  const room = root.clientWidth;
  scale(page, 1);
  for (const line of page.querySelectorAll("pre")) line.style.removeProperty("white-space");
  let size = Math.min(1, room / widthOf(page));
  if (size < LEGIBLE) {
    for (const line of page.querySelectorAll("pre")) line.style.setProperty("white-space", "pre-wrap", "important");
    size = Math.min(1, room / widthOf(page));
  }
  for (let turn = 0; room > 0 && size < 1 && turn < MOST_TURNS; turn++) {
    size = Math.max(SMALLEST, size);
    scale(page, size);
    if (root.scrollWidth <= room) break;
    size *= room / root.scrollWidth;
  }
  return size;
}

// Let the colour at the end of a mail go on below it.
function paintGround({ documentElement: root, body, defaultView }) {
  const { style } = root;
  style.removeProperty("background");
  if (body.getBoundingClientRect().bottom >= defaultView.innerHeight && root.scrollHeight > root.clientHeight) return;
  let colour;
  for (let element = body; element; element = lastIn(element, root)) {
    const { backgroundColor } = getComputedStyle(element);
    if (!/, 0\)$|transparent/.test(backgroundColor)) colour = backgroundColor;
  }
  if (colour) style.setProperty("background", colour, "important");
}

// Return what ends an element and is as wide as the page.
const lastIn = (element, { clientWidth }) =>
  [...element.children].findLast((one) => one.offsetHeight > 0 && one.getBoundingClientRect().width >= clientWidth - MARGINS_PX);

// Keep a mail fitted to its frame: `told(size)` is called with each new size, and `isWhole()` tells whether the reader wants
// its own size. Returns what fits it anew.
export function fit(frame, { isWhole, told }) {
  const page = frame.contentDocument;
  const { documentElement: root } = page;
  let [outer, inner, changes] = [];
  page.getElementById("size")?.remove(); // what fits a view that has a tab of its own

  function fitHeight() {
    const { scrollHeight, clientHeight, offsetHeight } = root;
    const height = scrollHeight > clientHeight ? scrollHeight : offsetHeight;
    frame.style.setProperty("--height", `${Math.min(MOST_PX, height)}px`);
    paintGround(page);
  }

  function fitAll() {
    if (!frame.isConnected) return;
    inner = root.clientWidth;
    told(fitWidth(page));
    if (isWhole()) scale(page, 1);
    fitHeight();
  }

  new ResizeObserver(() => {
    if (!frame.isConnected) return;
    if (frame.offsetWidth !== outer) [outer, changes] = [frame.offsetWidth, 0];
    if (changes++ < MOST_CHANGES) root.clientWidth === inner ? fitHeight() : fitAll();
  }).observe(root);
  page.addEventListener("load", fitAll, true); // an image has come
  return fitAll;
}

// Call `ready()` as soon as a frame has its mail, which may still wait for images, and once more when all of it is there.
export function whenCome(frame, hasCome, ready, doubt) {
  const timer = setInterval(() => {
    if (!frame.isConnected) clearInterval(timer);
    else if (hasCome() && frame.contentDocument.readyState !== "loading") (clearInterval(timer), ready());
  }, EARLY_MS);
  frame.addEventListener("load", () => {
    clearInterval(timer);
    if (frame.isConnected) hasCome() ? ready() : doubt();
  }, { once: true }); // a change of the mode is a load, too
}
