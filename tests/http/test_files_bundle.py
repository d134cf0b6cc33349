"""Modules joined into one script: each runs once, in order, and what cannot be read is refused."""

import pytest

from tmpmaild.http.files import UnreadableScriptError, join, minify_script


@pytest.fixture
def modules(tmp_path):
    """Return a function that writes modules and joins what ``app`` imports."""
    return lambda **texts: scripts(tmp_path, **texts)["app"]


@pytest.fixture
def all_scripts(tmp_path):
    """Return a function that writes modules and joins them to scripts."""
    return lambda **texts: scripts(tmp_path, **texts)


def scripts(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.js").write_text(text)
    return {name: minify_script(text) for name, text in join(folder, "app").items()}


def test_each_module_runs_once_after_those_that_it_imports_and_default_imports_come_first(modules):
    joined = modules(
        app='import { one } from "./part.js";\nimport { two } from "./other.js";\n\none(two);\n',
        part='// What it is for.\nimport { two } from "./other.js";\nexport const one = () => two;\n',
        other="export class two {\n  // inside\n}\nexport async function three() {}\n",
    )
    assert joined == "class two{}\nasync function three(){}\nconst one=()=>two;one(two);\n"
    joined = modules(
        app='import { t } from "./words.js";\nt();\n',
        words='import messages from "./messages.js";\nexport const t = () => messages;\n',
    )
    assert joined == 'import messages from"./messages.js";const t=()=>messages;t();\n'


@pytest.mark.parametrize(
    "line", ["let two;", "const [one, two] = [];", "const { one, two } = {};", "function two() {}"]
)
def test_a_name_that_two_modules_have_is_refused(modules, line):
    with pytest.raises(UnreadableScriptError, match=r"app\.js: two is a name in part\.js too"):
        modules(app=f'import {{ three }} from "./part.js";\n{line}', part="class two {}\nexport const three = 1;\n")
    assert modules(app=f'import {{ three }} from "./part.js";\nf(() => {{\n  {line}\n}});', part="const two = 1;")


@pytest.mark.parametrize(
    "line",
    [
        'import * as all from "./part.js";',
        'import "./part.js";',
        'import { one as two } from "./part.js";',
        'import { one } from "https://elsewhere.example/part.js";',
        "export default 1;",
        "export { one };",
        "export let one = 1;",
        "const text = `two",
    ],
)
def test_what_it_cannot_read_is_refused(modules, line):
    with pytest.raises(UnreadableScriptError, match=r"app\.js"):
        modules(app=line, part="")


def test_a_circle_is_refused(modules):
    with pytest.raises(UnreadableScriptError, match="imports itself"):
        modules(
            app='import { b } from "./b.js";\nexport const a = 1;',
            b='import { a } from "./app.js";\nexport const b = 1;',
        )


def test_a_module_that_is_imported_later_is_a_script_of_its_own_with_what_only_it_needs(all_scripts):
    assert all_scripts(
        app='import { a } from "./part.js";\nrun(a, import("./later.js"));\n',
        part="export const a = 1;\nexport const unused = 2;\nexport const b = 3;\n",
        later=(
            'import { own } from "./own.js";\nimport { a, b } from "./part.js";\n'
            'const hidden = () => import("./last.js");\nexport function run() {}\n'
        ),
        own='import { b } from "./part.js";\nexport const own = b;\n',
        last="export const end = 1;\n",
    ) == {
        "app": 'const a=1;const unused=2;const b=3;run(a,import("./later.js"));export{a,b};\n',
        "later": (
            'import{a,b}from"./app.js";const own=b;const hidden=()=>import("./last.js");function run(){}\nexport{run};\n'
        ),
        "last": "const end=1;export{end};\n",
    }


def test_a_module_that_two_later_scripts_would_have_is_refused(all_scripts):
    with pytest.raises(UnreadableScriptError, match=r"shared\.js: in several scripts"):
        all_scripts(
            app='run(import("./one.js"), import("./two.js"));\n',
            one='import { s } from "./shared.js";\n',
            two='import { s } from "./shared.js";\n',
            shared="export const s = 1;\n",
        )
