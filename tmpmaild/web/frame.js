// The HTML of a mail in its frame, with the choice about its remote images and the dark view.

import { get, set } from "./browser.js";
import { h } from "./dom.js";
import { fit, whenCome } from "./fit.js";
import { bar } from "./pane.js";
import { t } from "./words.js";

// No scripts. The origin lets this page, which has them, measure and print what is in the frame.
const SANDBOX = "allow-same-origin allow-modals allow-popups allow-popups-to-escape-sandbox";
const DARK = "tmpmaild:dark-mail";

// A message is dark where the page is, unless the reader wants it otherwise.
export const scheme = matchMedia("(prefers-color-scheme: dark)");
export const isDark = () => (get(DARK) ?? (scheme.matches ? "on" : "off")) === "on";
export const setDark = (dark) => set(DARK, dark ? "on" : "off");

// The part after the `#` is never sent: changing it asks for nothing.
const withMode = (url) => `${url}#${isDark() ? "dark" : "light"}`;

// Make the frame of a view. `doubt()` is called if the view has not come; `fitting` is what fit.js has to know.
export function frameOf(url, fitting, doubt) {
  const about = { sandbox: SANDBOX, referrerpolicy: "no-referrer", title: t("mail-as-html"), src: withMode(url), "data-url": url };
  const frame = h("iframe", about, { class: isDark() && "dark" });
  whenCome(frame, () => hasCome(frame), () => fitting.begin(fit(frame, fitting)), doubt);
  return frame;
}

const hasCome = ({ contentDocument }) => Boolean(contentDocument?.getElementById("light")); // as each view has

// Make a frame follow the choice of the dark view; setting `src` would add a step to the history.
export function applyMode(frame) {
  frame.classList.toggle("dark", isDark());
  frame.contentWindow.location.replace(new URL(withMode(frame.dataset.url), document.baseURI));
}

// Return the note about blocked images, which `load()` loads; nothing where none is.
export const blockedNote = (n, load) => n > 0 && bar("image", t("blocked", { n }), t("load-images"), load);
