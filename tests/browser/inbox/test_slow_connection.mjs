export const WATCH_PREVIEWS = () => {
  const place = document.querySelector(".preview");
  window.previews = [];
  new MutationObserver(() => previews.push(place.textContent.trim())).observe(place, { childList: true });
};

export const BACK_AND_OPEN_THE_NEWEST = () =>
  new Promise((resolve) => {
    addEventListener("popstate", resolve, { once: true });
    document.querySelector(".back").click();
    document.querySelector("#list .open").click();
  });
