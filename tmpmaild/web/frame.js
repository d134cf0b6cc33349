// A message's HTML in its frame, with the note about remote images and the dark view.

import { get, set } from "./browser.js";
import { h } from "./dom.js";
import { fit, whenCome } from "./fit.js";
import { bar } from "./pane.js";
import { t } from "./words.js";

// No scripts. The shared origin lets this page measure and print the frame's content.
const SANDBOX = "allow-same-origin allow-modals allow-popups allow-popups-to-escape-sandbox";
const DARK = "tmpmaild:dark-mail";

// A message is dark where the page is, unless the reader chose otherwise.
export const scheme = matchMedia("(prefers-color-scheme: dark)");
export const isDark = () => (get(DARK) ?? (scheme.matches ? "on" : "off")) === "on";
export const setDark = (dark) => set(DARK, dark ? "on" : "off");

// The fragment is never sent, so changing it makes no request.
const withMode = (url) => `${url}#${isDark() ? "dark" : "light"}`;

// Create the frame of a view. `doubt()` is called if the view did not load; `fitting` is passed to fit.js.
export function frameOf(url, fitting, doubt) {
  const about = { sandbox: SANDBOX, referrerpolicy: "no-referrer", title: t("mail-as-html"), src: withMode(url), "data-url": url };
  const frame = h("iframe", about, { class: isDark() && "dark" });
  whenCome(frame, () => hasCome(frame), () => fitting.begin(fit(frame, fitting)), doubt);
  return frame;
}

const hasCome = ({ contentDocument }) => Boolean(contentDocument?.getElementById("light")); // as each view has

// Apply the dark view to a frame; setting `src` would add a history entry.
export function applyMode(frame) {
  frame.classList.toggle("dark", isDark());
  frame.contentWindow.location.replace(new URL(withMode(frame.dataset.url), document.baseURI));
}

// Return the note about blocked images with a button that calls `load()`; returns false if there are none.
export const blockedNote = (n, load) => n > 0 && bar("image", t("blocked", { n }), t("load-images"), load);
