export const FILLED = () => [...document.querySelectorAll("main :is(button, a)")].filter((one) => one.checkVisibility({ visibilityProperty: true })
  && getComputedStyle(one).backgroundColor === "rgb(11, 110, 102)").map((one) => one.innerText.trim());

export const CUT_WITHOUT_A_SIGN = all => all.filter((one) => one.scrollWidth > one.clientWidth).filter((one) => {
  const { display, overflowX, textOverflow, whiteSpace } = getComputedStyle(one);
  return display !== "block" || overflowX !== "hidden" || textOverflow !== "ellipsis" || whiteSpace !== "nowrap";
}).map((one) => one.textContent);
