// The dark view of messages in HTML.

import { get, set } from "./browser.js";

const DARK = "tmpmaild:dark-mail";

// A message is shown in dark colours if the page is dark, unless the reader has chosen otherwise.
export const scheme = matchMedia("(prefers-color-scheme: dark)");
export const isDark = () => (get(DARK) ?? (scheme.matches ? "on" : "off")) === "on";
export const setDark = (dark) => set(DARK, dark ? "on" : "off");

// The fragment is never sent to the server, so changing it does not cause a request.
export const withMode = (url) => `${url}#${isDark() ? "dark" : "light"}`;

// Apply the dark view to a frame; setting `src` would add a history entry.
export function applyMode(frame) {
  frame.classList.toggle("dark", isDark());
  frame.contentWindow.location.replace(new URL(withMode(frame.dataset.url), document.baseURI));
}
