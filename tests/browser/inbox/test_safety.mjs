// Opens a message in each mode. Returns the elements of the document that the page's own code did not create; the
// content of the message's frame is not included.
export const READ = async ([row, modes]) => {
  const madeByThePage = [
    "script[src$='/app.js'], svg, svg *, a, article, b, button, dd, div, dl, dt, footer, h1, h2, h3, header, iframe",
    "input[type=search], kbd, li, main, nav, noscript, option, p, pre, section, select, small, span, time, ul, wbr",
  ].join();
  const until = async (isSo) => { while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 5)); };
  const foreign = () => [
    ...document.querySelectorAll(`html > :not(head, body), body :not(${madeByThePage}), #reader :is(script, noscript)`),
    ...[...document.querySelectorAll("*")].filter((one) => one.getAttributeNames().some((name) => /^on|^srcdoc$/.test(name))),
    ...document.querySelectorAll("[style]:not(.life div, .address, .inbox, iframe), iframe:not([src*='/view/'])"),
    ...document.querySelectorAll("#list a:not([href^='http']), #reader a:not([href^='http'])"),
  ].map((one) => one.outerHTML.slice(0, 200));
  // A message that is already open would not be drawn again.
  document.querySelector("#reader:not([hidden]) .back")?.click();
  const framed = new Promise((resolve) => document.addEventListener("load", resolve, { capture: true, once: true }));
  await until(() => document.querySelectorAll("#list .open")[row]);
  document.querySelectorAll("#list .open")[row].click();
  await framed;
  const found = { html: foreign() };
  for (const mode of modes) {
    document.querySelector(`[data-mode=${mode}]`).click();
    await until(() => document.querySelector(".pane:not([hidden])").ariaBusy !== "true");
    found[mode] = foreign();
  }
  for (const box of document.querySelectorAll(".attachments [aria-expanded]")) {
    box.click();
    await until(() => box.ariaExpanded !== "false");
    found.preview = [...(found.preview ?? []), ...foreign()];
  }
  return found;
};
