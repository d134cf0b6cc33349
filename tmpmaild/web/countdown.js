// Text that says how many seconds are left.

import { h } from "./dom.js";

const secondsUntil = (ms) => Math.max(1, Math.ceil((ms - Date.now()) / 1000));

// Make an element whose text is what `words(seconds)` returns, written anew each second while it is on the page.
export function countdown(seconds, words) {
  const untilMs = Date.now() + 1000 * seconds;
  const element = h("span");
  const write = () => (element.textContent = words(secondsUntil(untilMs)));
  const timer = setInterval(() => (element.isConnected ? write() : clearInterval(timer)), 1000);
  write();
  return element;
}
