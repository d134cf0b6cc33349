const { parse } = require("internal/deps/acorn/acorn/dist/acorn");
const forms = JSON.parse(require("fs").readFileSync(0, "utf8"));
const means = (key, value) => (["start", "end", "raw"].includes(key) ? undefined : value);
const tree = (form) => JSON.stringify(parse(form, { sourceType: "module", ecmaVersion: "latest" }), means);
console.log(JSON.stringify(forms.map(([long, short]) => tree(long) === tree(short))));
