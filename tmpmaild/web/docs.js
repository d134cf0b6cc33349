// Draws the OpenAPI 3.1 document of this server, filters it, and tries its operations. What the document and
// the answers say becomes text nodes, never markup.

const SOURCE = new URL("api/v1/openapi.json", document.baseURI);
const TOLD = ["Content-Type", "RateLimit", "RateLimit-Policy", "Retry-After", "Location", "Link"];
const SHOWN_CHARACTERS = 100_000;

const wide = matchMedia("(min-width: 60rem)");
const at = (id) => document.getElementById(id);
const isDefined = (value) => value !== undefined;
const isObject = (value) => value?.constructor === Object;
let api;

// Make an element: `h("p.note", {title: "…"}, "text", …)`; falsy children are left out.
function h(name, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  element.classList.add(...classes);
  for (const child of children.flat(Infinity)) {
    if (isObject(child)) Object.entries(child).forEach(([key, value]) => set(element, key, value));
    else if (child) element.append(child);
  }
  return element;
}

function set(element, key, value) {
  if (typeof value === "function") element.addEventListener(key, value);
  else if (isDefined(value) && value !== false) element.setAttribute(key, value === true ? "" : value);
}

// Draw a little Markdown: paragraphs, lists, code, bold, links.
function prose(text) {
  const block = (part) =>
    part.startsWith("- ") ? h("ul", part.slice(2).split("\n- ").map((item) => h("li", inline(item)))) : h("p", inline(part));
  return text && h("div.prose", text.trim().split(/\n\s*\n/).map(block));
}

function inline(text = "") {
  const parts = text.split(/(`[^`]+`|\*+[^*\s][^*]*\*+|\[[^\][]+\]\([^()\s]+\))/);
  return parts.map((part, index) => (index % 2 ? marked(part) : part));
}

function marked(part) {
  if (part[0] === "`") return h("code", part.slice(1, -1));
  if (part[0] === "*") return h("strong", part.replaceAll("*", ""));
  const [label, href] = part.slice(1, -1).split("](");
  return /^(https?:|[^:]*$)/.test(href) ? h("a", { href }, label) : label;
}

const pre = (...text) => h("pre", { tabindex: 0 }, h("code", text));
const json = (value) => JSON.stringify(value, null, 2);
const status = (...text) => h("p.status", { role: "status" }, text);
const section = (heading, ...content) => [h("h4", heading), content];

function lookup(reference) {
  const unescape = (key) => decodeURIComponent(key).replaceAll("~1", "/").replaceAll("~0", "~");
  const keys = reference.replace(/^#\//, "").split("/").map(unescape);
  return keys.reduce((node, key) => node?.[key], api) ?? {};
}

// Follow the references of anything but a schema.
function resolve(node) {
  for (let left = 9; node?.$ref && left; left--) node = lookup(node.$ref);
  return node ?? {};
}

// Return a schema without `$ref` and `allOf`; `of` does so for those inside it, where `loops` marks a recursion.
function shape(schema, trail = []) {
  const of = (inner) => shape(inner, trail);
  if (!isObject(schema)) return { of };
  const { $ref, allOf, ...own } = schema;
  if ($ref) {
    const name = $ref.split("/").pop();
    return trail.includes($ref) ? { name, of, loops: true } : { ...shape(lookup($ref), [...trail, $ref]), name, ...own };
  }
  if (!allOf) return { ...own, of };
  const parts = [...allOf.map(of), own];
  const properties = Object.assign({}, ...parts.map((part) => part.properties));
  return { ...Object.assign({}, ...parts), name: "", properties, required: parts.flatMap((part) => part.required ?? []), of };
}

const choices = (found) => (found.anyOf ?? found.oneOf ?? []).map(found.of);

// Return the type in words: "string, date-time | null", "array of MessageItem".
function typeText(found) {
  const several = choices(found);
  if (found.loops) return found.name;
  if (isDefined(found.const)) return JSON.stringify(found.const);
  if (several.length) return [...new Set(several.map(typeText))].join(" | ");
  const guess = found.properties ? "object" : found.items ? "array" : found.enum ? typeof found.enum[0] : "any";
  return [found.type ?? guess].flat().map((type) => simpleType(type, found)).join(" | ");
}

function simpleType(type, { name, format, prefixItems, items, of }) {
  if (type === "object") return name || type;
  if (type !== "array") return format && type !== "null" ? `${type}, ${format}` : type;
  if (prefixItems) return `[${prefixItems.map(of).map(typeText).join(", ")}]`;
  const item = typeText(of(items));
  return `array of ${item.includes(" | ") ? `(${item})` : item}`;
}

function bounds(low, high, unit = "") {
  if (low === high) return isDefined(low) && low + unit;
  if (low === undefined) return `at most ${high}${unit}`;
  return high === undefined ? `at least ${low}${unit}` : `${low} to ${high}${unit}`;
}

// Return what a schema says beyond its type, as phrases.
function facts(found) {
  const code = (value) => h("code", typeof value === "string" ? value || '""' : JSON.stringify(value));
  const say = (label, value) => isDefined(value) && [label, code(value)];
  const phrases = [
    found.enum && ["one of ", found.enum.map((value, index) => [index > 0 && ", ", code(value)])],
    say("default ", found.default),
    bounds(found.minimum, found.maximum),
    say("more than ", found.exclusiveMinimum),
    say("less than ", found.exclusiveMaximum),
    bounds(found.minLength, found.maxLength, " characters"),
    bounds(found.minItems, found.maxItems, " items"),
    say("matches ", found.pattern),
    say("for example ", found.example ?? found.examples?.[0]),
  ];
  const inner = [...choices(found), found.of(found.items)].filter((one) => !one.properties && Object.keys(one).length > 1);
  return [...phrases.filter(Boolean), ...inner.flatMap(facts)];
}

// Return the objects directly inside a schema.
function objects(found) {
  if (found.properties) return [found];
  const inner = [found.items, found.additionalProperties].filter(isObject).map(found.of);
  return [...choices(found), ...inner].flatMap(objects);
}

// Draw a parameter, header or member; `about` is what its schema does not say.
function field(name, found, about, inside) {
  const phrases = facts({ ...found, example: about.example ?? found.example });
  return h("li",
    name && [h("code.name", name), " "],
    h("span.type", about.in && `${about.in} · `, typeText(found)),
    about.required && h("span.need", " required"),
    about.deprecated && h("span.need", " deprecated"),
    prose(about.description ?? found.description),
    phrases.length > 0 && h("p.more", phrases.map((phrase, index) => [index > 0 && " · ", phrase])),
    objects(found).map((inner) =>
      h("details.nested", { open: !inside }, h("summary", `Members of ${inner.name || "the object"}`), members(inner, true))));
}

const outer = (one, name = one.name) => field(name, shape(one.schema), one);

function members({ properties, required = [], of }, inside) {
  const list = Object.entries(properties).map(([name, schema]) => field(name, of(schema), { required: required.includes(name) }, inside));
  return h("ul.fields", list);
}

// Make a value for a schema, of its examples where it has some.
function exampleOf(found) {
  const given = [found.example, found.examples?.[0], found.const, found.default, found.enum?.[0]].find(isDefined);
  if (isDefined(given) || found.loops) return given;
  const choice = choices(found).find((one) => one.type !== "null");
  if (choice) return exampleOf(choice);
  const inside = (one) => exampleOf(found.of(one));
  if (found.properties) return Object.fromEntries(Object.entries(found.properties).map(([name, one]) => [name, inside(one)]));
  const array = (found.prefixItems ?? [found.items]).filter(isObject).map(inside).filter(isDefined);
  const integer = found.minimum ?? 0;
  return { object: {}, array, integer, number: integer, boolean: false, string: "" }[[found.type].flat()[0]];
}

// Return the first media type of a body, and an example as text.
function sample(content) {
  const [[type, media] = []] = Object.entries(content ?? {});
  if (!type) return { text: "" };
  const given = media.example ?? resolve(Object.values(media.examples ?? {})[0]).value;
  const value = given ?? exampleOf(shape(media.schema));
  return { type, given, text: /json/.test(type) ? json(value) : (value ?? "") };
}

function readOperation(path, method, item) {
  const operation = item[method];
  const listed = [item.parameters ?? [], operation.parameters ?? []].flat().map(resolve);
  const responses = Object.entries(operation.responses ?? {}).map(([status, one]) => ({ status, ...resolve(one) }));
  const success = responses.find(({ status }) => status.startsWith("2"));
  const body = operation.requestBody && resolve(operation.requestBody);
  const schemes = (operation.security ?? api.security ?? []).map((one) => Object.keys(one).length);
  return {
    tags: ["other"],
    ...operation,
    id: operation.operationId ?? `${method}${path}`,
    path,
    method: method.toUpperCase(),
    parameters: [...new Map(listed.map((one) => [one.in + one.name, one])).values()],
    responses,
    success: { status: success?.status, type: "", ...sample(success?.content) },
    body: body && { ...body, ...sample(body.content) },
    token: schemes.some(Boolean) && (schemes.includes(0) ? "optional" : "required"),
  };
}

function readOperations() {
  return Object.entries(api.paths).flatMap(([path, reference]) => {
    const item = resolve(reference);
    return Object.keys(item).filter((key) => isObject(item[key])).map((key) => readOperation(path, key, item));
  });
}

const base = () => new URL(api.servers?.[0].url ?? "/", SOURCE);
const isStream = ({ success }) => success.type === "text/event-stream";
const startBody = ({ body }) => (body?.required || body?.given ? body.text : "");
// "@" may stay; "!" means something to a shell.
const encode = (text) => encodeURIComponent(text).replaceAll("%40", "@").replaceAll("!", "%21");
const quote = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

// Return the URL of a request; what it lacks becomes a variable of the shell.
function target({ path, parameters }, values) {
  const read = (place, name) => (values[place][name] ? encode(values[place][name]) : `$${name.replaceAll(/\W/g, "_").toUpperCase()}`);
  const asked = parameters.filter((one) => one.in === "query" && (values.query[one.name] || one.required));
  const query = asked.map(({ name }) => `${encode(name)}=${read("query", name)}`).join("&");
  const filled = path.replaceAll(/\{([^{}]+)\}/g, (_, name) => read("path", name));
  return base().href.replace(/\/$/, "") + filled + (query && `?${query}`);
}

function headersOf({ body }, { header, own }) {
  const given = Object.entries(header).filter(([, value]) => value);
  return own.body ? [...given, ["Content-Type", body.type]] : given;
}

// Return the command of a request. The token stays a variable: what is copied may end up in a ticket.
function curl(operation, values) {
  const method = { GET: "", HEAD: " -I" }[operation.method] ?? ` -X ${operation.method}`;
  const output = isStream(operation) ? " -N" : /^$|json|text/.test(operation.success.type) ? "" : " -OJ";
  const lines = [`curl${method}${output} "${target(operation, values)}"`];
  if (operation.token === "required" || values.own.token) lines.push('-H "Authorization: Bearer $TOKEN"');
  for (const [name, value] of headersOf(operation, values)) lines.push(`-H ${quote(`${name}: ${value}`)}`);
  if (values.own.body) lines.push(`-d ${quote(values.own.body)}`);
  return lines.join(" \\\n  ");
}

// Give the value of a control to its like in other forms.
function mirror({ value, dataset }) {
  for (const twin of document.querySelectorAll(`[data-shared="${dataset.shared}"]`)) {
    if (twin.value === value) continue;
    twin.value = value;
    twin.form.dispatchEvent(new Event("input"));
  }
}

function control({ in: place, name, schema, example, required }) {
  const found = shape(schema);
  const values = found.enum ?? (found.type === "boolean" && [true, false]);
  const about = { required, "data-in": place, "data-name": name, "data-shared": /path|own/.test(place) && name };
  if (values) return h("select", about, h("option", { value: "" }, "not sent"), values.map((value) => h("option", String(value))));
  return h("input", about, { placeholder: example ?? exampleOf(found) });
}

const labelled = (name, note, element) => h("label", h("span", h("code", name), ` ${note}`), element);

function form(operation, redraw) {
  const { parameters, body, token } = operation;
  // The token is no password field, which a browser would offer to store.
  const fields = token ? [...parameters, { in: "own", name: "token", required: token === "required" }] : parameters;
  const note = (one) => (one.in === "own" ? "in Authorization" : one.in) + (one.required ? ", required" : "");
  const result = h("div.result", { hidden: true });
  const button = h("button.main", "Send");
  const element = h("form", { autocomplete: "off", spellcheck: "false", input: (event) => (redraw(), mirror(event.target)) },
    fields.map((one) => labelled(one.name, note(one), control(one))),
    body && labelled("body", body.type, h("textarea", { "data-in": "own", "data-name": "body", placeholder: body.text }, startBody(operation))),
    button);
  element.addEventListener("submit", sender(operation, element, button, result));
  return [element, result];
}

function valuesOf(element, body) {
  const values = { path: {}, query: {}, header: {}, cookie: {}, own: { body } };
  for (const { value, dataset } of element.querySelectorAll("[data-in]")) values[dataset.in][dataset.name] = value.trim();
  return values;
}

// Return what submitting does: send the request, or give up the one on its way.
function sender(operation, element, button, result) {
  let pending;
  return async (event) => {
    event.preventDefault();
    if (pending) return pending.abort();
    pending = new AbortController();
    button.textContent = "Cancel";
    result.hidden = false;
    result.replaceChildren(status("Waiting …"));
    result.replaceChildren(...(await answer(operation, valuesOf(element), pending)));
    result.scrollIntoView({ block: "nearest" });
    button.textContent = "Send";
    pending = undefined;
  };
}

async function answer(operation, values, pending) {
  const started = performance.now();
  try {
    const headers = new Headers(headersOf(operation, values));
    if (values.own.token) headers.set("Authorization", `Bearer ${values.own.token}`);
    const { method } = operation;
    const request = { method, headers, body: values.own.body || null, signal: pending.signal, credentials: "omit" };
    const response = await fetch(target(operation, values), request);
    const body = await bodyText(response, pending);
    const code = h(response.ok ? "span" : "span.bad", response.status);
    const spent = ` · ${Math.round(performance.now() - started)} ms`;
    const told = TOLD.filter((name) => response.headers.has(name));
    const list = told.map((name) => [h("dt", name), h("dd", h("code", response.headers.get(name)))]);
    return [status(code, spent), h("dl", list), pre(body)];
  } catch (error) {
    return [status(pending.signal.aborted ? "Cancelled." : `There was no answer: ${error.message}.`)];
  }
}

async function bodyText(response, pending) {
  const type = response.headers.get("Content-Type") ?? "";
  if (type.startsWith("text/event-stream")) {
    pending.abort();
    return "A stream: use curl -N.";
  }
  if (!/json|^text\/|^message\//.test(type)) {
    const { size } = await response.blob();
    return size ? `${size} bytes of ${type}` : "No body";
  }
  const text = pretty(await response.text());
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}\n… cut here` : text || "No body";
}

function pretty(text) {
  try {
    return json(JSON.parse(text));
  } catch {
    return text;
  }
}

function bodyView(content = {}) {
  return Object.entries(content).map(([type, { schema }]) => {
    const found = shape(schema);
    return [h("p.soft", h("code", type)), /json/.test(type) && (found.properties ? members(found) : h("ul.fields", field("", found, {})))];
  });
}

function responseView({ status, description, headers = {}, content }, index) {
  const list = Object.entries(headers).map(([name, header]) => outer(resolve(header), name));
  return h("details.response", { open: index === 0 },
    h("summary", h("b", status), " ", inline(description)),
    h("div", content ? bodyView(content) : h("p.soft", "No body"), list.length > 0 && section("Headers", h("ul.fields", list))));
}

function told(operation) {
  const { method, path, parameters, body, token } = operation;
  return h("div.told",
    h("h3", h("a", { href: `#${operation.id}` }, operation.summary ?? path)),
    h("p.route", h("span.method", method), h("code", path)),
    operation.deprecated && h("p.bad", "Deprecated"),
    prose(operation.description),
    token && section("Authorization", h("p", h("code", "Authorization: Bearer <token>"), ` is ${token}.`)),
    parameters.length > 0 && section("Parameters", h("ul.fields", parameters.map((one) => outer(one)))),
    body && section(body.required ? "Request body" : "Request body, optional", prose(body.description), bodyView(body.content)),
    section("Responses", operation.responses.map(responseView)));
}

function shown(operation) {
  const command = h("code");
  const redraw = () => command.replaceChildren(curl(operation, valuesOf(trial, startBody(operation))));
  const trial = h("details.block", h("summary", "Try it"), trialOf(operation, redraw));
  redraw();
  const { status, text } = operation.success;
  return h("div.shown",
    h("section.block", h("header", "curl", copyButton(command)), pre(command)),
    text && h("section.block", h("header", `${status}, for example`), pre(text)),
    trial);
}

function trialOf(operation, redraw) {
  if (isStream(operation)) return h("p", "A stream has no end: use curl -N.");
  if (base().origin !== location.origin) return h("p", `The API is at ${base().origin}: open this page there to try it.`);
  return form(operation, redraw);
}

function copyButton(source) {
  const copy = async ({ target: button }) => {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  };
  return navigator.clipboard && h("button.plain", { click: copy }, "Copy");
}

// Draw an operation and its entry in the list; `words` is what the filter looks at.
function drawOperation(operation) {
  const { id, method, path, summary, description, tags } = operation;
  const link = h("a", { href: `#${id}` }, h("span.method", method), summary ?? path);
  const words = [id, method, path, summary, description, tags].join(" ").toLowerCase();
  return { words, link, entry: h("li", link), article: h("article.operation", { id }, told(operation), shown(operation)) };
}

// Draw all operations by their first tag, tags in the order of the document.
function drawGroups() {
  const operations = readOperations();
  const tags = new Map((api.tags ?? []).map((tag) => [tag.name, tag.description]));
  return [...new Set([...tags.keys(), ...operations.map((one) => one.tags[0])])].flatMap((name) => {
    const drawn = operations.filter((one) => one.tags[0] === name).map(drawOperation);
    at("index").append(h("section", h("h2", name), h("ul", drawn.map(({ entry }) => entry))));
    at("content").append(h("section.group", h("header", h("h2", name), prose(tags.get(name))), drawn.map(({ article }) => article)));
    return drawn;
  });
}

function intro({ title, version, summary, description }) {
  return h("header.intro",
    h("h1", title),
    summary && h("p.soft", summary),
    prose(description),
    h("p.facts", h("span", "Version ", version), h("span", "Base ", h("code", base().href)), h("a", { href: SOURCE }, "OpenAPI ", api.openapi)));
}

function applyFilter(drawn) {
  const wanted = at("filter").value.toLowerCase().split(/\s+/);
  for (const { words, article, entry } of drawn) article.hidden = entry.hidden = !wanted.every((word) => words.includes(word));
  at("count").textContent = `${drawn.filter(({ article }) => !article.hidden).length} of ${drawn.length}`;
}

// Go where the URL of the page points, also if the filter hides that.
function goToLink(drawn) {
  for (const { link } of drawn) link.setAttribute("aria-current", link.hash === location.hash);
  const aim = drawn.find(({ link }) => link.hash === location.hash)?.article;
  if (aim?.hidden) {
    at("filter").value = "";
    applyFilter(drawn);
  }
  aim?.scrollIntoView();
}

function listen(drawn) {
  const unfold = () => (at("index").open = wide.matches);
  wide.addEventListener("change", unfold);
  at("index").addEventListener("click", (event) => event.target.closest("a") && unfold());
  at("filter").addEventListener("input", () => applyFilter(drawn));
  addEventListener("hashchange", () => goToLink(drawn));
  unfold();
  applyFilter(drawn);
  goToLink(drawn);
}

async function load() {
  at("state").replaceChildren(h("p.notice", "Loading the description …"));
  try {
    api = await (await fetched()).json();
    document.title = api.info.title;
    at("content").append(intro(api.info));
    at("side").hidden = false;
    at("state").replaceChildren();
    listen(drawGroups());
  } catch (error) {
    const text = h("p", `The description could not be loaded: ${error.message} It is the document `, h("a", { href: SOURCE }, SOURCE.href), ".");
    at("state").replaceChildren(h("div.notice", text, h("button", { click: load }, "Try again")));
  }
}

async function fetched() {
  const response = await fetch(SOURCE, { credentials: "omit" });
  if (response.ok) return response;
  const { title = "", detail = "" } = await response.json().catch(() => ({}));
  throw new Error(`${response.status} ${title}. ${detail}`);
}

load();
