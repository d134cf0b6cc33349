// Notifications outside of the page: the bell that turns them on, and showing them. Chrome on Android shows them only
// for the service worker (worker.js).

import { askToNotify, canNotify, get, mayNotify, set } from "./browser.js";

const NOTIFY_KEY = "tmpmaild:notify";
const shown = new Map(); // by tag: close() and open() of a notification

const isOn = () => get(NOTIFY_KEY) === "on" && mayNotify();

// Show a notification if the reader wants them and does not look; `open` is called on a click.
export function notify(title, body, tag, open) {
  if (!document.hidden || !isOn()) return;
  try {
    // Of the tabs that show one inbox, one is heard: they give the same tag.
    const notification = new Notification(title, { body, tag });
    notification.onclick = () => (window.focus(), open(), notification.close());
    shown.set(tag, { open, close: () => notification.close() });
  } catch {
    notifyByWorker(title, { body, tag }, open).catch(reportError);
  }
}

// Close all notifications: some of them may be of mail that is gone.
export function closeNotifications() {
  for (const { close } of shown.values()) close();
  shown.clear();
}

async function notifyByWorker(title, options, open) {
  const { serviceWorker } = navigator;
  const registration = await serviceWorker.ready;
  serviceWorker.onmessage = ({ data }) => shown.get(data.clicked)?.open();
  const close = async () => (await registration.getNotifications(options)).forEach((one) => one.close());
  shown.set(options.tag, { open, close });
  await registration.showNotification(title, { ...options, icon: "web/icon-192.png" });
}

// Make the bell work where the browser can notify; it asks for the permission only on a click. `deny` is called when
// the browser does not give it.
export function setUpBell(bell, deny) {
  if (!canNotify()) return;
  const draw = () => (bell.ariaPressed = isOn());
  bell.onclick = async () => {
    const wanted = !isOn();
    set(NOTIFY_KEY, wanted ? "on" : "off");
    if (wanted && !(await askToNotify())) deny();
    draw();
  };
  bell.hidden = false;
  draw();
}
