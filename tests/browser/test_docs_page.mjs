export const VIOLATE = () => new Promise((resolve) => {
    addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
    document.body.append(Object.assign(new Image(), {src: "http://127.0.0.1:1/elsewhere.png"}));
});

// Keeps only one operation and two lines of each list. The removed content looks the same, and checking the contrast of
// a thousand texts takes six seconds.
export const THIN_OUT = () => {
  [...document.querySelectorAll("article")].slice(1).forEach((one) => one.remove());
  for (const one of document.querySelectorAll("ul, ol, pre")) [...one.children].slice(2).forEach((more) => more.remove());
};
