// Runs in a page when the person asks for it, in a world of its own that the page cannot reach: says which fields there are,
// and writes into those that were chosen. Takes no values out of the page, listens to nothing, and leaves nothing in it.

globalThis.tmpmaildPage ??= (() => {
  const MOST_FIELDS = 300;
  const MOST_LABEL_CHARACTERS = 200;
  let found = []; // what the last look has found

  // Return all fields, also in open shadow trees.
  function fieldsIn(root) {
    const list = [];
    for (const element of root.querySelectorAll("*")) {
      if (list.length >= MOST_FIELDS) break;
      if (element instanceof HTMLInputElement) list.push(element);
      else if (element.shadowRoot) list.push(...fieldsIn(element.shadowRoot));
    }
    return list;
  }

  // The parents of an element, through shadow trees and same-origin frames.
  function* above(element) {
    for (let one = element; one; one = one.parentNode ?? one.host) yield one;
  }

  function focusedElement() {
    for (let here = window; here.frameElement; here = here.parent) {
      if (here.frameElement.ownerDocument.activeElement !== here.frameElement) return undefined;
    }
    let element = document.activeElement;
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
    return element;
  }

  // Tell whether the person can see the field and write into it.
  function isUsable(element, focused) {
    const { width, height, right, bottom } = element.getBoundingClientRect();
    const isInReach = Math.max(right, right + scrollX) > 0 && Math.max(bottom, bottom + scrollY) > 0; // what is not is a trap for robots
    const opaque = element !== focused && element.maxLength !== 1; // fields behind drawn boxes may be transparent
    return width > 1 && height > 1 && isInReach && !element.disabled && !element.readOnly &&
      element.checkVisibility({ visibilityProperty: true, opacityProperty: opaque });
  }

  function describe(element, focused, forms) {
    const labels = [...(element.labels ?? [])].map((label) => label.textContent);
    const said = [...labels, element.getAttribute("aria-label"), element.placeholder, element.title];
    return {
      type: element.type,
      name: `${element.name} ${element.id}`.slice(0, MOST_LABEL_CHARACTERS),
      label: said.filter(Boolean).join(" ").slice(0, MOST_LABEL_CHARACTERS),
      autocomplete: (element.getAttribute("autocomplete") ?? "").slice(0, MOST_LABEL_CHARACTERS), // Firefox's property lacks some
      maxLength: element.maxLength,
      form: forms.indexOf(element.form),
      isFocused: element === focused,
      isEmpty: element.value === "",
    };
  }

  // Return the fields, those of a modal dialog alone if there is one, and whether frames of other sites are shown.
  function look() {
    const focused = focusedElement();
    const all = fieldsIn(document).filter((element) => isUsable(element, focused));
    const modal = [...document.querySelectorAll("dialog:modal, [aria-modal=true]")].findLast((one) => one.checkVisibility());
    const within = modal ? all.filter((element) => [...above(element)].includes(modal)) : all;
    found = within.length > 0 ? within : all;
    const forms = [...new Set(found.map(({ form }) => form))];
    const isForeign = (frame) => frame.contentDocument === null && frame.offsetWidth > 99 && frame.offsetHeight > 29;
    return {
      host: location.hostname,
      fields: found.map((element) => describe(element, focused, forms)),
      hasForeignFrames: [...document.querySelectorAll("iframe")].some(isForeign),
    };
  }

  // Write as a person would, with the events that frameworks listen to; tell whether the page has kept it.
  async function write(values) {
    for (const [index, value] of values) {
      const element = found[index];
      if (!element?.isConnected) return false;
      element.focus();
      element.value = value;
      element.dispatchEvent(new InputEvent("input", { bubbles: true, composed: true, inputType: "insertText", data: value }));
      element.dispatchEvent(new Event("change", { bubbles: true }));
      await new Promise((resolve) => setTimeout(resolve)); // a framework may draw anew between two fields
    }
    return values.every(([index, value]) => found[index].value === value || !found[index].isConnected);
  }

  return { look, write };
})();
