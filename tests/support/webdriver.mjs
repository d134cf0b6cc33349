// What WebKit's page is asked: Playwright's own script finds elements and says what state they are in.
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
