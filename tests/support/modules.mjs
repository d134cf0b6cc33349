import { readFileSync } from "node:fs";
const { script, expression, given } = JSON.parse(readFileSync(0, "utf8"));
const module = await import(`data:text/javascript,${encodeURIComponent(script)}`);
console.log(JSON.stringify(await eval(expression)(module, ...given)));
