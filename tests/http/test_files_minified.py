"""What is left out of scripts and styles means nothing; a JavaScript parser and a browser read the same with and without it."""

import json
import subprocess
from pathlib import Path

import pytest

from patience import PATIENCE_SECONDS
from tables import rows_of, table
from tmpmaild.http.files import UnreadableScriptError, bundle, join, minify_script, minify_style

ROWS = rows_of(__file__)

WEB = Path(__file__).parents[2] / "tmpmaild/web"


@table(("script", "short"), ROWS["comments and spaces of a script are left out"])
def test_comments_and_spaces_of_a_script_are_left_out(script, short):
    assert minify_script(script) == short + "\n"


@pytest.mark.parametrize(
    "script", ['"never closed', "`never closed", "'one quote'", "`${`${a}`}`; `${ {b: {c: {}}} }`"]
)
def test_a_script_that_it_cannot_read_is_refused(script):
    with pytest.raises(UnreadableScriptError):
        minify_script(script)


@table(("style", "short"), ROWS["comments and spaces of a style sheet are left out"])
def test_comments_and_spaces_of_a_style_sheet_are_left_out(style, short):
    assert minify_style(style) == short + "\n"


# With the parser that Node has for itself; where a token stands and how a value is spelled does not matter.
TREES = Path(__file__).with_name("files-minified-trees.js.txt").read_text()


@pytest.mark.needs("node")
def test_a_javascript_parser_reads_the_same_in_what_we_serve_and_in_what_we_wrote():
    texts = [join(WEB, "app"), *(path.read_text() for path in sorted((WEB / "messages").iterdir()))]
    forms = [(text, minify_script(text)) for text in texts]
    assert forms[0][1] == bundle(WEB, "app")
    command = ["node", "--expose-internals", "--eval", TREES]
    done = subprocess.run(
        command, input=json.dumps(forms), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True] * len(forms)
