// Desktop notifications: shows them, and draws the bell that turns them on. Chrome on Android shows notifications only
// through the service worker (worker.js).

import { askToNotify, canNotify, get, mayNotify, set } from "./browser.js";

const NOTIFY_KEY = "tmpmaild:notify";
const shown = new Map(); // by tag: the functions close() and open() of a notification

const isOn = () => get(NOTIFY_KEY) === "on" && mayNotify();

// Show a notification if notifications are turned on and the page is not visible; `open` is called on a click.
export function notify(title, body, tag, open) {
  if (!document.hidden || !isOn()) return;
  try {
    // Tabs that show the same inbox use the same tag, so only one notification is shown.
    const notification = new Notification(title, { body, tag });
    notification.onclick = () => (window.focus(), open(), notification.close());
    shown.set(tag, { open, close: () => notification.close() });
  } catch {
    notifyByWorker(title, { body, tag }, open).catch(reportError);
  }
}

// Close all notifications, because some may be about deleted messages.
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

// Enable the bell if the browser supports notifications; permission is requested only when the bell is clicked. `deny`
// is called if the permission is denied.
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
