// The HTML of a mail in its frame, with the choice about its remote images and the dark view.

import { get, set } from "./browser.js";
import { h } from "./dom.js";
import { bar } from "./pane.js";
import { t } from "./words.js";

const SANDBOX = "allow-popups allow-popups-to-escape-sandbox"; // no scripts, and no origin of ours
const DARK = "tmpmaild:dark-mail";

export const isDark = () => get("localStorage", DARK) === "on";
export const setDark = (dark) => set("localStorage", DARK, dark ? "on" : "off");

// The part after the `#` is never sent: changing it asks for nothing.
const withMode = (url) => `${url}#${isDark() ? "dark" : "light"}`;

// Make the frame of a view. `doubt()` is called if the browser does not say that the view has come: a frame tells nothing itself.
export function frameOf(url, doubt) {
  const about = { sandbox: SANDBOX, referrerpolicy: "no-referrer", title: t("mail-as-html"), src: withMode(url), "data-url": url };
  const frame = h("iframe", about, { class: isDark() && "dark" });
  // Once: a change of the mode is a load, too.
  frame.addEventListener("load", () => frame.isConnected && !hasCome(frame) && doubt(), { once: true });
  return frame;
}

// Only where the browser tells the status can there be a doubt: WebKit does not.
function hasCome({ src }) {
  if (!("responseStatus" in PerformanceResourceTiming.prototype)) return true;
  const status = performance.getEntriesByName(src).at(-1)?.responseStatus;
  performance.clearResourceTimings(); // the browser keeps but a few hundred
  return status >= 200 && status < 300;
}

// Make a frame follow the choice of the dark view; setting `src` would add a step to the history.
export function applyMode(frame) {
  frame.classList.toggle("dark", isDark());
  frame.contentWindow.location.replace(new URL(withMode(frame.dataset.url), document.baseURI));
}

// Return the note about blocked images, which `load()` loads; nothing where none is.
export const blockedNote = (n, load) => n > 0 && bar("image", t("blocked", { n }), t("load-images"), load);
