export const PRINTED = () => {
  window.printed = [];
  const html = document.querySelector("iframe").contentWindow;
  for (const [name, one] of Object.entries({ html, page: window })) one.print = () => printed.push(name);
};
