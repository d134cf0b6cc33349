// The service worker: shows the notifications of an open page where the page may not do so itself. It has no fetch
// handler: nothing is kept for offline use, and no request passes through here.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

// A click tells a page that is open which notification it was, and shows that page; without one it opens the page.
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(show(event.notification.tag));
});

async function show(tag) {
  const [page] = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  if (!page) return self.clients.openWindow(self.registration.scope);
  page.postMessage({ clicked: tag });
  return page.focus();
}
