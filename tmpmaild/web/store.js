// Stores the inboxes in the browser, and reads and creates the links that open them. Does not access page
// elements.
//
// An inbox consists of the API's data about an address, its `token`, and `seen`, the ids of the opened messages. It may
// also have `label`, the reader's name for it; `used_ms`, the time when it was last shown; `removing`, the ids of
// messages that are being deleted on the server; `count`, its number of messages; and `foreign`, set if this browser
// opened the inbox from a link instead of creating it.

import { get, set } from "./browser.js";

export const SCOPE = `tmpmaild:${location.pathname}`; // one host may run several services, each at a different path
const CURRENT = `${SCOPE}:current`;
const LINK = /^(\S+@\S+?)(?:\.([\w-]{20,}))?$/;

// Ignore stored data that this page did not write.
function readAll() {
  try {
    return JSON.parse(get(SCOPE)).filter(({ address, seen }) => address.includes("@") && seen.at);
  } catch {
    return [];
  }
}

const write = (inboxes) => set(SCOPE, JSON.stringify(inboxes));

// Return the inboxes that have not expired by `nowMs`, oldest first; forget all other inboxes.
export function storedInboxes(nowMs) {
  const all = readAll();
  const alive = all.filter(({ expires_at }) => Date.parse(expires_at) > nowMs);
  if (alive.length < all.length) write(alive);
  return alive;
}

// Forget the inboxes that have expired by `nowMs`, and return the last shown inbox if it has expired.
export function takeEnded(nowMs) {
  const ended = readAll().filter(({ expires_at }) => Date.parse(expires_at) <= nowMs);
  storedInboxes(nowMs);
  return ended.find(({ address, foreign }) => address === chosen() && !foreign);
}

// Add an inbox, or merge new data into an existing inbox, and return it.
export function keep(inbox) {
  const known = update(inbox.address, inbox);
  if (!known) write([...readAll(), { seen: [], ...inbox }]);
  return known ?? { seen: [], ...inbox };
}

// Change an inbox and return it. An inbox that another tab has deleted stays deleted, and a link with a wrong token
// does not replace the correct token.
export function update(address, changes) {
  const all = readAll();
  const index = all.findIndex((inbox) => inbox.address === address);
  if (index < 0) return undefined;
  const { token = changes.token, seen, removing } = all[index];
  all[index] = { ...all[index], ...changes, token, removing, seen: [...new Set([...seen, ...(changes.seen ?? [])])] };
  write(all);
  return all[index];
}

// Record the start or the end of a deletion of messages on the server. If the page is closed before the response
// arrives, the request is repeated when the page is next opened.
export function noteRemoval(address, ids, isAsked) {
  const all = readAll();
  const inbox = all.find((one) => one.address === address);
  if (!inbox) return;
  const others = (inbox.removing ?? []).filter((id) => !ids.includes(id));
  inbox.removing = isAsked ? [...others, ...ids] : others;
  write(all);
}

export const forget = (address) => write(readAll().filter((inbox) => inbox.address !== address));

// Return the address that this tab shows; a new tab starts with the address last selected in any tab.
export const chosen = () => get(CURRENT, "sessionStorage") ?? get(CURRENT);

// Other people's inboxes are selected for this tab only, so that readers do not sign up with an address that others
// read.
export function choose({ address, foreign }) {
  set(CURRENT, address, "sessionStorage");
  if (!foreign) set(CURRENT, address);
}

// Call `callback` when another tab has changed the inboxes, or may have changed them while this page was in the
// back/forward cache.
export function onChange(callback) {
  addEventListener("storage", ({ key }) => key === SCOPE && callback());
  addEventListener("pageshow", ({ persisted }) => persisted && callback());
}

// Remove `#address.token` or `#address` from the address bar and return its content, if any.
export function takeLink() {
  const { hash, pathname, search } = location;
  if (hash) history.replaceState(history.state, "", pathname + search);
  const [, address, token] = LINK.exec(hash.slice(1).replace("%40", "@")) ?? [];
  // Case is folded in the same way as on the server, so that an inbox is recognised regardless of how its link is
  // written.
  return address && { address: address.toLowerCase().replace(/\+.*@/, "@"), ...(token && { token }) };
}

// Return the link that opens an inbox in other browsers, with full access to it.
export const linkTo = ({ address, token }) => `${new URL(".", document.baseURI)}#${address}${token ? `.${token}` : ""}`;
