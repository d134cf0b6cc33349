// The service worker: caches the page's files, so that the page can be reloaded offline and report that it is offline.
// It also shows an open page's notifications if the page cannot do so itself. It stores no messages, and handles no
// other requests.

const { scope } = registration;
const FILES = ["web/app.js", "web/inbox.css", "", "web/messages.js"].map((path) => scope + path); // the server adds the version
const KEPT = `${scope} ${FILES[0]}`; // a host may run several services, each at a different path
const PATIENCE_MS = 3000;

// Either all files of a version are cached, or none. Most files are already in the browser's cache, so few requests are
// needed.
addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.open(KEPT).then((kept) => kept.addAll(FILES)));
});
addEventListener("activate", (event) => event.waitUntil(takeOver()));

async function takeOver() {
  for (const name of await caches.keys()) if (name.startsWith(`${scope} `) && name !== KEPT) await caches.delete(name);
  await clients.claim();
}

// Responses are never stored, because a link may contain a token after its `#`.
addEventListener("fetch", (event) => {
  const url = event.request.url.replace(/[?#].*/, "");
  if (FILES.includes(url)) event.respondWith(respond(event.request, url));
});

// Request the page and its texts from the server first, because the server knows the newest version and the reader's
// language. An error from a gateway that cannot reach the server is treated like a lost connection.
async function respond(request, url) {
  const kept = await caches.match(url, { cacheName: KEPT, ignoreVary: true });
  if (kept && FILES.indexOf(url) < 2) return kept;
  const asked = fetch(request);
  if (!kept) return asked;
  const late = new Promise((resolve) => setTimeout(resolve, PATIENCE_MS, kept));
  return Promise.race([late, asked.then((found) => ([502, 504].includes(found.status) ? kept : found), () => kept)]);
}

// A click on a notification focuses an open page and informs it of the click; if no page is open, a new page is opened.
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
