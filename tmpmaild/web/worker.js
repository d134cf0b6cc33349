// The service worker: keeps the files of the page, so that a reload without a line shows the page, which says so itself; and
// shows the notifications of an open page where that may not do so. It keeps no mail: no other request is answered here.

const { scope } = registration;
const FILES = ["web/app.js", "web/inbox.css", "", "web/messages.js"].map((path) => scope + path); // the server adds the version
const KEPT = `${scope} ${FILES[0]}`; // one host may have several services, each at a path
const PATIENCE_MS = 3000;

// A version is kept as a whole or not at all. The browser has its files already, so this asks for little.
addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.open(KEPT).then((kept) => kept.addAll(FILES)));
});
addEventListener("activate", (event) => event.waitUntil(takeOver()));

async function takeOver() {
  for (const name of await caches.keys()) if (name.startsWith(`${scope} `) && name !== KEPT) await caches.delete(name);
  await clients.claim();
}

// Nothing that comes is kept: a link may have a token behind its `#`.
addEventListener("fetch", (event) => {
  const url = event.request.url.replace(/[?#].*/, "");
  if (FILES.includes(url)) event.respondWith(answer(event.request, url));
});

// For the page and its words the server comes first: it knows the newest version and the reader's language. A gateway that
// does not reach it is a dead line.
async function answer(request, url) {
  const kept = await caches.match(url, { cacheName: KEPT, ignoreVary: true });
  if (kept && FILES.indexOf(url) < 2) return kept;
  const asked = fetch(request);
  if (!kept) return asked;
  const late = new Promise((resolve) => setTimeout(resolve, PATIENCE_MS, kept));
  return Promise.race([late, asked.then((found) => ([502, 504].includes(found.status) ? kept : found), () => kept)]);
}

// A click tells a page that is open which notification it was, and shows that page; without one it opens the page.
addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(show(event.notification.tag));
});

async function show(tag) {
  const [page] = await clients.matchAll({ type: "window", includeUncontrolled: true });
  if (!page) return clients.openWindow(scope);
  page.postMessage({ clicked: tag });
  return page.focus();
}
