export const REFUSED = () => {
  const refuse = () => { throw new DOMException("The operation is insecure.", "SecurityError"); };
  const refused = { get: refuse };
  const unkept = { request: () => Promise.reject(new DOMException("no", "SecurityError")) };
  const of = (object, facilities) => Object.entries(facilities).forEach(([name, about]) =>
    Object.defineProperty(object, name, { configurable: true, ...about }));
  of(window, { localStorage: refused, sessionStorage: refused, BroadcastChannel: { value: class { constructor() { refuse(); } } } });
  of(Notification, { permission: refused, requestPermission: { value: refuse } });
  of(Navigator.prototype, { locks: { value: unkept }, clipboard: { value: { writeText: () => Promise.reject(new Error("no")) } },
    serviceWorker: refused });
};

export const MISSING = () => {
  delete window.Notification;
  delete window.BroadcastChannel;
  for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, { configurable: true, value: null });
  for (const name of ["locks", "clipboard", "serviceWorker"]) delete Navigator.prototype[name];
};
