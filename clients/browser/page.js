// Runs in a page at the user's request, in an isolated world that the page cannot access: describes the fields, and
// fills in the chosen fields. Reads no values from the page, adds no event listeners, and leaves nothing behind.

globalThis.tmpmaildPage ??= (() => {
  const MAX_FIELDS = 300;
  const MAX_LABEL_CHARACTERS = 200;
  let found = []; // the fields found by the last `look`

  // Return all fields, including those in open shadow trees.
  function fieldsIn(root) {
    const list = [];
    for (const element of root.querySelectorAll("*")) {
      if (list.length >= MAX_FIELDS) break;
      if (element instanceof HTMLInputElement) list.push(element);
      else if (element.shadowRoot) list.push(...fieldsIn(element.shadowRoot));
    }
    return list;
  }

  // Yield an element and its ancestors, across shadow trees.
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

  // Return whether the user can see the field and write into it.
  function isUsable(element, focused) {
    const { width, height, right, bottom } = element.getBoundingClientRect();
    // Fields outside the page are traps for bots.
    const isInReach = Math.max(right, right + scrollX) > 0 && Math.max(bottom, bottom + scrollY) > 0;
    // Single-character fields may be transparent, with visible boxes drawn over them.
    const opaque = element !== focused && element.maxLength !== 1;
    return width > 1 && height > 1 && isInReach && !element.disabled && !element.readOnly &&
      element.checkVisibility({ visibilityProperty: true, opacityProperty: opaque });
  }

  function describe(element, focused, forms) {
    const labels = [...(element.labels ?? [])].map((label) => label.textContent);
    const said = [...labels, element.getAttribute("aria-label"), element.placeholder, element.title];
    return {
      type: element.type,
      name: `${element.name} ${element.id}`.slice(0, MAX_LABEL_CHARACTERS),
      label: said.filter(Boolean).join(" ").slice(0, MAX_LABEL_CHARACTERS),
      // In Firefox, the `autocomplete` property omits some values.
      autocomplete: (element.getAttribute("autocomplete") ?? "").slice(0, MAX_LABEL_CHARACTERS),
      maxLength: element.maxLength,
      form: forms.indexOf(element.form),
      isFocused: element === focused,
      isEmpty: element.value === "",
    };
  }

  // Return the fields (if a modal dialog is open, only its fields), and whether frames from other sites are visible.
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

  // Fill in fields as a user would, with the events that frameworks listen to; return whether the page has kept the
  // values.
  async function write(values) {
    for (const [index, value] of values) {
      const element = found[index];
      if (!element?.isConnected) return false;
      element.focus();
      element.value = value;
      element.dispatchEvent(new InputEvent("input", { bubbles: true, composed: true, inputType: "insertText", data: value }));
      element.dispatchEvent(new Event("change", { bubbles: true }));
      await new Promise((resolve) => setTimeout(resolve)); // a framework may re-render between two fields
    }
    return values.every(([index, value]) => found[index].value === value || !found[index].isConnected);
  }

  return { look, write };
})();
