// Methods of sending a request without a preflight; the query contains the method's name.
export const SEND = ([url, names]) => {
  const add = (tag, properties) => document.body.appendChild(Object.assign(document.createElement(tag), properties));
  const ways = {
    fetch: (url) => fetch(url, { method: "POST", mode: "no-cors" }),
    beacon: (url) => navigator.sendBeacon(url, "x"),
    opaque: (url) => add("iframe", { sandbox: "allow-scripts",
      srcdoc: `<script>fetch("${url}", { method: "POST", mode: "no-cors" })</script>` }),
    form: (url) => {
      add("iframe", { name: "target" });
      add("form", { method: "post", action: url, target: "target" }).submit();
    },
    socket: (url) => void new WebSocket(url.replace("http:", "ws:")),
    prefetch: (url) => add("link", { rel: "prefetch", href: url }),
    speculation: (url) => add("script", { type: "speculationrules",
      textContent: JSON.stringify({ prefetch: [{ source: "list", urls: [url] }] }) }),
    image: (url) => add("img", { src: url }),
    script: (url) => add("script", { src: url }),
    frame: (url) => add("iframe", { src: url }),
    object: (url) => add("object", { data: url }),
    reading: (url) => fetch(url),
    stream: (url) => void new EventSource(url),
    preflight: (url) => fetch(url, { method: "PATCH" }),
  };
  for (const name of names) Promise.resolve(ways[name](`${url}?by=${name}`)).catch(() => 0);
};

export const SUBMIT = (url) => document.body.appendChild(
  Object.assign(document.createElement("form"), { method: "post", action: url })).submit();

export const CREATE_AND_FOLLOW = async (url) => {
  const answer = await fetch(url, { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } });
  const { address } = await answer.json();
  await new Promise((resolve) => { new EventSource(`${url}/${address}/events`).onopen = resolve; });
  return [answer.status, address];
};
