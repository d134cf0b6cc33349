export const HAS_ROOM = select => {
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.font = getComputedStyle(select).font;
  return canvas.measureText(select.selectedOptions[0].text).width + 40 <= select.clientWidth;
};
