// These functions run with the privileges of the browser. RUN finds the objects that the other functions need, and
// calls these functions; ALLOW_PRIVATE runs on its own.
export const RUN = (act, [id, expression, done]) => {
  (async () => {
    const { extension } = WebExtensionPolicy.getByID(id);
    const main = Services.wm.getMostRecentWindow("navigator:browser");
    const { ExtensionParent } = ChromeUtils.importESModule("resource://gre/modules/ExtensionParent.sys.mjs");
    const button = ExtensionParent.apiManager.global.browserActionFor(extension);
    const popup = main.document.querySelector("browser[webextension-view-type=popup]");
    return JSON.stringify((await act({ extension, main, button, popup }, expression)) ?? null);
  })().then(done, (error) => done("E" + error));
};

// The expression is evaluated in a sandbox, because the popup's policy forbids eval().
export const EVALUATE = async ({ popup }, expression) => {
  const sandbox = Cu.Sandbox(popup.contentWindow, { sandboxPrototype: popup.contentWindow, wantXrays: false });
  return JSON.parse(await Cu.evalInSandbox(`(async () => JSON.stringify((await (${expression})) ?? null))()`, sandbox));
};

// Runs before the extension is installed: the protocol's own command loads the extension twice, which closes the only
// tab and thereby the browser.
export const ALLOW_PRIVATE = ([id, , done]) => {
  const { ExtensionPermissions } = ChromeUtils.importESModule("resource://gre/modules/ExtensionPermissions.sys.mjs");
  ExtensionPermissions.add(id, { permissions: ["internal:privateBrowsingAllowed"], origins: [] }).then(done);
};

export const REVOKE = async ({ extension }) => {
  const { ExtensionPermissions } = ChromeUtils.importESModule("resource://gre/modules/ExtensionPermissions.sys.mjs");
  await ExtensionPermissions.remove(extension.id, { permissions: [], origins: ["http://127.0.0.1/*"] }, extension);
};

export const CHOOSE_IN_MENU = ({ main }, label) => {
  const menu = main.document.getElementById("contentAreaContextMenu");
  [...menu.querySelectorAll("menuitem")].find((one) => one.label === label).doCommand();
  menu.hidePopup();
};

export const ANSWER = ({ main }, button) => {
  const [asked] = main.PopupNotifications.panel.querySelectorAll("popupnotification[id^=addon-webext-perm]");
  asked?.[button].click();
  return Boolean(asked);
};

export const PRESS = ({ popup }, [x, y]) => {
  for (const type of ["mousedown", "mouseup"]) popup.contentWindow.synthesizeMouseEvent(type, x, y, { clickCount: 1 });
};
