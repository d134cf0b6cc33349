// Keeps the inboxes in the browser, and takes and makes the links that carry one. Knows nothing of the page's elements.
//
// An inbox is what the API says of an address, its `token`, and `seen`, the ids of the messages that were opened. It may have
// `label`, the reader's name for it, `used_ms`, when it was last shown, `removing`, the ids of messages that the server is asked
// to delete, `count`, how many messages it had, and `foreign`, if this browser did not make it but followed a link to it.

import { get, set } from "./browser.js";

export const SCOPE = `tmpmaild:${location.pathname}`; // a server may have several services, each at a path
const CURRENT = `${SCOPE}:current`;
const LINK = /^(\S+@\S+?)(?:\.([\w-]{20,}))?$/;

// What is not ours counts as nothing.
function readAll() {
  try {
    return JSON.parse(get(SCOPE)).filter(({ address, seen }) => address.includes("@") && seen.at);
  } catch {
    return [];
  }
}

const write = (inboxes) => set(SCOPE, JSON.stringify(inboxes));

// Return the inboxes that have not ended by `nowMs`, oldest first; the others are forgotten.
export function storedInboxes(nowMs) {
  const all = readAll();
  const alive = all.filter(({ expires_at }) => Date.parse(expires_at) > nowMs);
  if (alive.length < all.length) write(alive);
  return alive;
}

// Forget the inboxes that have ended by `nowMs`, and return that which was shown last if it is one of them.
export function takeEnded(nowMs) {
  const ended = readAll().filter(({ expires_at }) => Date.parse(expires_at) <= nowMs);
  storedInboxes(nowMs);
  return ended.find(({ address, foreign }) => address === chosen() && !foreign);
}

// Add an inbox, or take over what is new of one that is known, and return it.
export function keep(inbox) {
  const known = update(inbox.address, inbox);
  if (!known) write([...readAll(), { seen: [], ...inbox }]);
  return known ?? { seen: [], ...inbox };
}

// Change an inbox and return it; one that another tab has deleted stays away, and a link with a wrong token does not
// take the right one away.
export function update(address, changes) {
  const all = readAll();
  const index = all.findIndex((inbox) => inbox.address === address);
  if (index < 0) return undefined;
  const { token = changes.token, seen, removing } = all[index];
  all[index] = { ...all[index], ...changes, token, removing, seen: [...new Set([...seen, ...(changes.seen ?? [])])] };
  write(all);
  return all[index];
}

// Note which messages the server is being asked to delete, or no more: should the page be gone before it answers, the next
// one asks again.
export function noteRemoval(address, ids, isAsked) {
  const all = readAll();
  const inbox = all.find((one) => one.address === address);
  if (!inbox) return;
  const others = (inbox.removing ?? []).filter((id) => !ids.includes(id));
  inbox.removing = isAsked ? [...others, ...ids] : others;
  write(all);
}

export const forget = (address) => write(readAll().filter((inbox) => inbox.address !== address));

// Return the address that this tab shows; a new tab starts with what was last chosen in any.
export const chosen = () => get(CURRENT, "sessionStorage") ?? get(CURRENT);

// A foreign inbox is chosen for this tab only: nobody is to sign up somewhere with an address that others read.
export function choose({ address, foreign }) {
  set(CURRENT, address, "sessionStorage");
  if (!foreign) set(CURRENT, address);
}

// Call back when another tab changed the inboxes, or may have while this page was left and not yet come back to.
export function onChange(callback) {
  addEventListener("storage", ({ key }) => key === SCOPE && callback());
  addEventListener("pageshow", ({ persisted }) => persisted && callback());
}

// Take `#address.token` or `#address` out of the address bar and return what it said, if anything.
export function takeLink() {
  const { hash, pathname, search } = location;
  if (hash) history.replaceState(history.state, "", pathname + search);
  const [, address, token] = LINK.exec(hash.slice(1).replace("%40", "@")) ?? [];
  // As the server folds it, so that an inbox is recognised however the link writes it.
  return address && { address: address.toLowerCase().replace(/\+.*@/, "@"), ...(token && { token }) };
}

// Return the link that opens an inbox elsewhere, with all rights to it.
export const linkTo = ({ address, token }) => `${new URL(".", document.baseURI)}#${address}${token ? `.${token}` : ""}`;
