"""Our scripts that touch no page, run by node, which starts in a twentieth of the time of a tab."""

import json
from pathlib import Path

from daemons import finished

WEB = Path(__file__).parents[2] / "tmpmaild/web"
# As data, since node takes a file of this name for another kind of module.
RUN = """
import { readFileSync } from "node:fs";
const { script, expression, given } = JSON.parse(readFileSync(0, "utf8"));
const module = await import(`data:text/javascript,${encodeURIComponent(script)}`);
console.log(JSON.stringify(await eval(expression)(module, ...given)));
"""


def in_node(name, expression, *given):
    """Return what a function in JavaScript returns for one of the scripts, which imports no other, and these values."""
    asked = {"script": (WEB / name).read_text(), "expression": expression, "given": given}
    command = ["node", "--input-type=module", "--eval", RUN]
    done = finished(command, input=json.dumps(asked), encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
