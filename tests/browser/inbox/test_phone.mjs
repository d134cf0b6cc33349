// Chromium closes a notification after a few seconds, perhaps before the test checks it, unless the notification
// requires interaction.
export const WITHOUT_NOTIFICATIONS_BY_PAGES = () => {
  const { prototype } = ServiceWorkerRegistration, { showNotification } = prototype;
  prototype.showNotification = function (title, options) {
    return showNotification.call(this, title, { ...options, requireInteraction: true });
  };
  Object.defineProperty(Document.prototype, "hidden", { get: () => true });
  window.Notification = class { static permission = "granted"; constructor() { throw new TypeError("Illegal constructor"); } };
  localStorage["tmpmaild:notify"] = "on";
};

export const SHOWN = async () => {
    const [one] = await (await navigator.serviceWorker.ready).getNotifications();
    return one && [one.title, one.body];
};
