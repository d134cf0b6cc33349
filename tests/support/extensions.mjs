// Run with the rights of the browser. RUN calls the others, except ALLOW_PRIVATE, with what it has found.
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

// In a sandbox, since the popup's policy forbids eval().
export const EVALUATE = async ({ popup }, expression) => {
  const sandbox = Cu.Sandbox(popup.contentWindow, { sandboxPrototype: popup.contentWindow, wantXrays: false });
  return JSON.parse(await Cu.evalInSandbox(`(async () => JSON.stringify((await (${expression})) ?? null))()`, sandbox));
};

// Before it is installed: the protocol's own way loads it twice, and so closes the only tab, which ends the browser.
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
