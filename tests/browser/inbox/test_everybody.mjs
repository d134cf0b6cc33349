export const IN_THE_BACKGROUND = () => {
  let isHidden = false;
  Object.defineProperty(Document.prototype, "hidden", { get: () => isHidden });
  window.hide = (value) => { isHidden = value; document.dispatchEvent(new Event("visibilitychange")); };
  window.asked = 0;
  window.shown = [];
  window.Notification = class extends EventTarget {
    static permission = "default";
    static async requestPermission() { window.asked += 1; return (this.permission = "granted"); }
    constructor(title, { body }) {
      super();
      window.shown.push([title, body]);
      this.addEventListener("click", (event) => this.onclick?.(event));
      window.clickNotification = () => this.dispatchEvent(new Event("click"));
    }
    close() {}
  };
};
