"""Our scripts that touch no page, run by node, which starts in a twentieth of the time of a tab."""

import json
from pathlib import Path

from daemons import finished

WEB = Path(__file__).parents[2] / "tmpmaild/web"
# As data, since node takes a file of this name for another kind of module.
RUN = Path(__file__).with_name("modules-run.mjs.txt").read_text()


def in_node(name, expression, *given):
    """Return what a function in JavaScript returns for one of the scripts, which imports no other, and these values."""
    asked = {"script": (WEB / name).read_text(), "expression": expression, "given": given}
    command = ["node", "--input-type=module", "--eval", RUN]
    done = finished(command, input=json.dumps(asked), encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
