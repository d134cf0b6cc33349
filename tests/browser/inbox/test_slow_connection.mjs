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

// Answers the next request for a source with its first part. `finish()` sends the rest, and `cutOff()` breaks the response.
export const SEND_THE_SOURCE_IN_PARTS = () => {
  const { fetch } = window;
  const octets = (text) => new TextEncoder().encode(text);
  window.fetch = (url, request) => {
    if (!String(url).endsWith("/raw")) return fetch(url, request);
    window.fetch = fetch;
    const start = (body) => {
      body.enqueue(octets(`the start ${"x".repeat(200_000)}`));
      window.finish = () => (body.enqueue(octets("the end")), body.close());
      window.cutOff = () => body.error(new Error("cut off"));
    };
    return Promise.resolve(new Response(new ReadableStream({ start })));
  };
};
