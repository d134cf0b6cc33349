// A message's HTML in its frame, with the note about remote images and the dark view.

import { later } from "./api.js";
import { get, set } from "./browser.js";
import { h } from "./dom.js";
import { fit, whenCome } from "./fit.js";
import { bar } from "./pane.js";
import { t } from "./words.js";

// No scripts. Because the frame has the same origin, this page can measure and print its content.
const SANDBOX = "allow-same-origin allow-modals allow-popups allow-popups-to-escape-sandbox";
const DARK = "tmpmaild:dark-mail";

// A message is shown in dark colours if the page is dark, unless the reader has chosen otherwise.
export const scheme = matchMedia("(prefers-color-scheme: dark)");
export const isDark = () => (get(DARK) ?? (scheme.matches ? "on" : "off")) === "on";
export const setDark = (dark) => set(DARK, dark ? "on" : "off");

// The fragment is never sent to the server, so changing it does not cause a request.
const withMode = (url) => `${url}#${isDark() ? "dark" : "light"}`;

// Create the frame for a view. `doubt()` is called if the view does not load; `fitting` is passed to fit.js.
export function frameOf(url, subject, fitting, doubt) {
  const about = { sandbox: SANDBOX, referrerpolicy: "no-referrer", title: t("mail-as-html"), src: withMode(url), "data-url": url };
  const frame = h("iframe", about, { class: isDark() && "dark" });
  const begin = () => (foldIn(frame.contentDocument, subject), fitting.begin(fit(frame, fitting)));
  whenCome(frame, () => hasCome(frame), begin, doubt);
  return frame;
}

// Few messages are replies, so the module that folds quotes is loaded when it is first needed. If it cannot be loaded,
// quotes are shown unfolded.
function foldIn(page, subject) {
  if (/^\s*\S{1,8}\s*[:：]/.test(subject)) later("quotes").then(({ foldQuotes }) => foldQuotes(page, subject), () => {});
}

// Every view contains an element with the id "light".
const hasCome = ({ contentDocument }) => Boolean(contentDocument?.getElementById("light"));

// Apply the dark view to a frame; setting `src` would add a history entry.
export function applyMode(frame) {
  frame.classList.toggle("dark", isDark());
  frame.contentWindow.location.replace(new URL(withMode(frame.dataset.url), document.baseURI));
}

// Return the note about blocked images with a button that calls `load()`; returns false if there are none.
export const blockedNote = (n, load) => n > 0 && bar("image", t("blocked", { n }), t("load-images"), load);
