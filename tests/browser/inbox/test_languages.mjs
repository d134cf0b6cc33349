export const SQUEEZED = () => {
  const [head, field] = [".mail-head > button", "#search input"].map((one) => document.querySelector(one).getBoundingClientRect());
  return head.right > field.left && head.left < field.right ? ["the search field lies over the menu"] : [];
};

export const SPOKEN = async () => {
  const words = await import(document.querySelector("[rel=modulepreload]").href);
  return [document.documentElement.lang, words.default.language];
};

export const IS_RIGHT = selectors => selectors.filter((selector) => {
  const { left, width } = document.querySelector(selector).getBoundingClientRect();
  return left + width / 2 > innerWidth / 2;
});

export const BELOW = (all) => all.filter((one) => one.offsetTop >= all[0].offsetTop + all[0].offsetHeight).map((one) => one.outerHTML.slice(0, 120));
