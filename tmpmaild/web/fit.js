// Fits a message to its frame: the width (measured rather than derived from styles), the height, and the colour below
// the message.

const MAX_PX = 30_000;
const MAX_CHANGES = 30; // without this limit, a message that always outgrows its frame would be resized forever
const MAX_ELEMENTS = 4000; // the maximum number of elements to measure
const MAX_TURNS = 4; // scaling is repeated, because elements as wide as the frame grow when the message is scaled down
const SMALLEST = 0.25;
const LEGIBLE = 0.5; // below this scale, preformatted lines are wrapped
const CLIPS_FROM_PX = 100; // narrower elements are assumed to hide their text intentionally
const MARGINS_PX = 17; // a page's default margins, plus one pixel for rounding
const EARLY_MS = 100;
const PAPER_PX = 680; // A4 with margins of 15 mm

// Return the original width of a message, from its leftmost to its rightmost point.
function widthOf({ documentElement: root, body }) {
  let [left, right] = [0, root.scrollWidth];
  for (const element of [...body.getElementsByTagName("*")].slice(0, MAX_ELEMENTS)) {
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

// Scale a message down until its whole width is visible; return the scale, which is 1 if it fits.
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
  if (room === 0 || size === 1) return size;
  size = Math.max(SMALLEST, size);
  scale(page, size);
  for (let turn = 1; turn < MAX_TURNS && size > SMALLEST && root.scrollWidth > room; turn++) {
    size = Math.max(SMALLEST, size * room / root.scrollWidth);
    scale(page, size);
  }
  return size;
}

// Extend the background colour at the bottom of a message to the area below the message.
function paintGround({ documentElement: root, body, defaultView }) {
  const { style } = root;
  style.removeProperty("background");
  if (body.getBoundingClientRect().bottom >= defaultView.innerHeight && root.scrollHeight > root.clientHeight) return;
  const width = Math.max(root.clientWidth, body.getBoundingClientRect().width); // WebKit measures before scaling
  let colour;
  for (let element = body; element; element = lastIn(element, width)) {
    const { backgroundColor } = getComputedStyle(element);
    if (!/, 0\)$|transparent/.test(backgroundColor)) colour = backgroundColor;
  }
  if (colour) style.setProperty("background", colour, "important");
}

// Return the last child that is as wide as the page.
const lastIn = (element, width) =>
  [...element.children].findLast((one) => one.offsetHeight > 0 && one.getBoundingClientRect().width >= width - MARGINS_PX);

// Keep a message fitted to its frame. `onScale(size)` is called with each new scale, and `isWhole()` returns whether the
// reader has chosen the original size. Returns a function that fits the message again, or to paper before it is printed.
export function fit(frame, { isWhole, onScale }) {
  const page = frame.contentDocument;
  const { documentElement: root } = page;
  let [outer, inner, changes] = [];
  page.getElementById("size")?.remove(); // this style is only for a view that is opened in its own tab

  function fitHeight() {
    const { scrollHeight, clientHeight, offsetHeight } = root;
    const height = scrollHeight > clientHeight ? scrollHeight : offsetHeight;
    frame.style.setProperty("--height", `${Math.min(MAX_PX, height)}px`);
    paintGround(page);
  }

  // On paper, nothing can be scrolled, and browsers shrink only slightly wider pages.
  function fitToPaper() {
    frame.style.width = frame.style.minWidth = `${PAPER_PX}px`;
    fitWidth(page);
    frame.style.width = frame.style.minWidth = "";
  }

  function fitAll(isPrinting) {
    if (!frame.isConnected) return;
    if (isPrinting) return fitToPaper();
    inner = root.clientWidth;
    onScale(fitWidth(page));
    if (isWhole()) scale(page, 1);
    fitHeight();
  }

  new ResizeObserver(() => {
    if (!frame.isConnected) return;
    if (frame.offsetWidth !== outer) [outer, changes] = [frame.offsetWidth, 0];
    if (changes++ < MAX_CHANGES) root.clientWidth === inner ? fitHeight() : fitAll();
  }).observe(root);
  page.addEventListener("load", () => fitAll(), true); // an image has finished loading
  return fitAll;
}

// Call `ready()` as soon as a frame contains its message, whose images may still be loading, and again when it is
// complete.
export function whenCome(frame, hasCome, ready, doubt) {
  const timer = setInterval(() => {
    if (!frame.isConnected) clearInterval(timer);
    else if (hasCome() && frame.contentDocument.readyState !== "loading") (clearInterval(timer), ready());
  }, EARLY_MS);
  frame.addEventListener("load", () => {
    clearInterval(timer);
    if (frame.isConnected) hasCome() ? ready() : doubt();
  }, { once: true }); // changing the mode also fires a load event
}
