// Excludes the message frame: the sender controls its content, and scripts cannot read it.
export const AXE = async ([part, runOnly]) => {
  const { violations } = await axe.run(part === "body" ? document : part, { runOnly, iframes: false, preload: { assets: ["media"] }, resultTypes: ["violations"], selectors: false });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html, any }) => `${id}: ${html.slice(0, 160)} ${any[0]?.message ?? ""}`));
};

export const WITHOUT_OUTLINE = () => {
  const visible = (one) => one.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: false });
  return [...document.querySelectorAll("a[href], button, input, select, iframe")].filter(visible).filter((one) => {
    one.focus();
    const style = getComputedStyle(one);
    const shown = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    return document.activeElement === one && one.tagName !== "IFRAME" && !shown;
  }).map((one) => one.outerHTML.slice(0, 160));
};

// Links within text may be as small as the text (WCAG 2.2, 2.5.8).
export const SMALL_OR_NAMELESS = async () => {
  const visible = (one) => one.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: false });
  // A new row has no size until it is painted.
  const late = new Promise((resolve) => setTimeout(resolve, 1000));
  for (const _ of "12") await Promise.race([new Promise(requestAnimationFrame), late]);
  return [...document.querySelectorAll("a[href], button, input, select, iframe")].filter(visible).filter((one) => {
    const { width, height } = one.getBoundingClientRect();
    const name = one.ariaLabel || one.title || one.textContent.trim() || one.labels?.[0]?.innerText;
    return !name || (!one.matches("pre a, .skip") && (width < 24 || height < 24));
  }).map((one) => one.outerHTML.slice(0, 160));
};

export const OVERFLOWING = () => {
  const visible = (one) => one.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: false });
  const wider = document.documentElement.scrollWidth > innerWidth ? ["the page"] : [];
  const lost = (one) => {
    const { left, right, width, height } = one.getBoundingClientRect();
    const isCut = getComputedStyle(one).overflowX === "hidden" && one.scrollWidth > one.clientWidth + 1;
    const isSqueezed = !one.childElementCount && one.textContent.length > 2 && height > 1.5 * width && width < 24;
    return left < -0.5 || right > innerWidth + 0.5 || isCut || isSqueezed;
  };
  const isMeant = (one) => one.closest(".unseen, .skip, .sprite, svg, #inboxes, .address *, .open [dir], .verb > *");
  const clipped = [...document.querySelectorAll("body *")].filter((one) => visible(one) && !isMeant(one) && lost(one));
  return [...wider, ...clipped.map((one) => one.outerHTML.slice(0, 120))];
};

export const PLACES = (all) =>
  all.map((one) => one.getBoundingClientRect()).filter(({ height }) => height > 0).map(({ top, bottom }) => [top, bottom]);
