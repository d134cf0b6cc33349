// Runs in the page in WebKit: Playwright's own script finds elements and reports their state.
export const CALL = (evaluate, [argument, done]) => {
  (async () => {
    if (!window.__playwright) return { none: true };
    const find = (selector) => __playwright.querySelectorAll(__playwright.parseSelector(selector), document);
    const is = (one, state) => one !== undefined && __playwright.elementState(one, state, true).matches;
    let value = evaluate(find, is);
    if (typeof value === "function") value = await value(argument, { find, is });
    return { value };
  })().then(done, (error) => done({ error: String(error) }));
};
