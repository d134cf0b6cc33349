"""Minifying preserves the meaning of scripts and styles. ``tests/browser/test_served_files.py`` covers browsers."""

import json
import subprocess
from pathlib import Path

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.http.bundling import UnreadableScriptError, join, minify_script, minify_style

WEB = Path(__file__).parents[2] / "tmpmaild/web"


@pytest.mark.parametrize(
    ("script", "short"),
    [
        ("// one\nlet a = 1; /* two */ let b;\n", "let a=1;let b;"),
        ('const text = "a  // b" + `c  ${d  + "e"} // f`;', 'const text="a  // b"+`c  ${d  + "e"} // f`;'),
        ("`${a ? `.${b , c}` : {  } }  `  ;", "`${a ? `.${b , c}` : {  } }  `;"),
        ('"a \\" b"  +  c', '"a \\" b"+c'),
        ("a = b / c / d; // e", "a=b/c/d;"),
        ("f(/[/ ] \\/ +/g, x) / 2", "f(/[/ ] \\/ +/g,x)/2"),
        ("return /a, b/.exec(c) ;", "return/a, b/.exec(c);"),
        ("x = [1 , 2] / 3 / y", "x=[1,2]/3/y"),
        ("a + +b - -c + ++d", "a+ +b- -c+ ++d"),
        ("a()\n\n  b()\n  .c( 1,\n 2 )", "a()\nb().c(1,2)"),
        ("if (a) return\n[b]", "if(a)return\n[b]"),
        ("class a {\n  #b = 1;\n  static async c() {\n }\n}\nd", "class a{#b=1;static async c(){}}\nd"),
        ("", ""),
    ],
)
def test_comments_and_spaces_of_a_script_are_removed(script, short):
    assert minify_script(script) == short + "\n"


@pytest.mark.parametrize(
    "script", ['"never closed', "`never closed", "'one quote'", "`${`${a}`}`; `${ {b: {c: {}}} }`"]
)
def test_a_script_that_cannot_be_parsed_is_refused(script):
    with pytest.raises(UnreadableScriptError):
        minify_script(script)


@pytest.mark.parametrize(
    ("style", "short"),
    [
        ("/* one */\na > b { top: 0; left: calc(1px + 2px); }\n", "a > b{top:0;left:calc(1px + 2px)}"),
        ('a::before { content: " /; } "; }', 'a::before{content:" /; } "}'),
        ("a :is(b, c) :hover, d { --x: 1 2; }", "a :is(b,c) :hover,d{--x:1 2}"),
        (
            "@media (width < 40rem) and (height < 30rem) {\n  a { top: 0 }\n}",
            "@media (width < 40rem) and (height < 30rem){a{top:0}}",
        ),
    ],
)
def test_comments_and_spaces_of_a_style_sheet_are_removed(style, short):
    assert minify_style(style) == short + "\n"


# Uses Node's internal parser; positions of tokens and the spelling of values are ignored.
TREES = Path(__file__).with_name("trees.cjs")


@pytest.mark.needs("node")
def test_a_javascript_parser_sees_no_difference_between_source_and_served_script():
    texts = [*join(WEB, "app").values(), *(path.read_text() for path in sorted((WEB / "messages").iterdir()))]
    forms = [(text, minify_script(text)) for text in texts]
    command = ["node", "--expose-internals", TREES]
    done = subprocess.run(
        command, input=json.dumps(forms), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True] * len(forms)
