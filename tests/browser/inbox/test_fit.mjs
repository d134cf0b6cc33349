// Replaces the frame's print function; `printed` receives the overflow of the message on paper of this width.
export const PRINT_ON = (width) => {
  window.printed = [];
  const frame = document.querySelector("iframe");
  frame.contentWindow.print = () => {
    frame.style.cssText += `width:${width}px;min-width:${width}px;max-width:${width}px`;
    const { documentElement: root } = frame.contentDocument;
    printed.push(root.scrollWidth - root.clientWidth);
    for (const name of ["width", "min-width", "max-width"]) frame.style.removeProperty(name);
  };
};
