export const LOOK = () => {
  const style = (selector) => getComputedStyle(document.querySelector(selector));
  return {
    width: style("table").width, phone: style("div:last-of-type").display, ground: style("body").backgroundColor,
    colours: [...document.querySelectorAll("p")].map((one) => getComputedStyle(one).color),
    padding: style("td").paddingLeft, size: style("div").fontSize, head: style("head").display + style("style").display,
  };
};
