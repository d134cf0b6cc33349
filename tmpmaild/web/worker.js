// The service worker: it makes the page installable and shows its notifications. It has no fetch handler: nothing
// is kept for offline use, and no request passes through here.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

// A click on a notification shows the page that is open, or opens it.
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(showPage());
});

async function showPage() {
  const [page] = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  await (page ? page.focus() : self.clients.openWindow(self.registration.scope));
}
