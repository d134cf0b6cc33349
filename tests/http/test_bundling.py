"""Modules joined into one script: each runs once, in order, and unsupported syntax is refused."""

import pytest

from tmpmaild.http.bundling import UnreadableScriptError, join, minify_script


@pytest.fixture
def modules(tmp_path):
    """Return a function that writes modules and joins those that ``app`` imports."""
    return lambda **texts: scripts(tmp_path, **texts)["app"]


@pytest.fixture
def all_scripts(tmp_path):
    """Return a function that writes modules and joins them into scripts."""
    return lambda **texts: scripts(tmp_path, **texts)


def scripts(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.js").write_text(text)
    return {name: minify_script(text) for name, text in join(folder, "app").items()}


def test_each_module_runs_once_after_its_imports_and_default_imports_are_first(modules):
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
def test_a_name_used_in_two_modules_is_refused(modules, line):
    with pytest.raises(UnreadableScriptError, match=r"app\.js: two is also declared in part\.js"):
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
def test_unsupported_syntax_is_refused(modules, line):
    with pytest.raises(UnreadableScriptError, match=r"app\.js"):
        modules(app=line, part="")


def test_a_circular_import_is_refused(modules):
    with pytest.raises(UnreadableScriptError, match="imports itself"):
        modules(
            app='import { b } from "./b.js";\nexport const a = 1;',
            b='import { a } from "./app.js";\nexport const b = 1;',
        )


def test_a_module_imported_later_is_a_separate_script_with_its_own_dependencies(all_scripts):
    assert all_scripts(
        app='import { a } from "./part.js";\nrun(a, later("later"));\n',
        part="export const a = 1;\nexport const unused = 2;\nexport const b = 3;\n",
        later=(
            'import { own } from "./own.js";\nimport { a, b } from "./part.js";\n'
            'const hidden = () => later("last");\nexport function run() {}\n'
        ),
        own='import { b } from "./part.js";\nexport const own = b;\n',
        last="export const end = 1;\n",
    ) == {
        "app": 'const a=1;const unused=2;const b=3;run(a,later("later"));export{a,b};\n',
        "later": (
            'import{a,b}from"./app.js";const own=b;const hidden=()=>later("last");function run(){}\nexport{run};\n'
        ),
        "last": "const end=1;export{end};\n",
    }


def test_a_module_needed_by_two_later_scripts_is_refused(all_scripts):
    with pytest.raises(UnreadableScriptError, match=r"shared\.js: contained in several scripts"):
        all_scripts(
            app='run(later("one"), later("two"));\n',
            one='import { s } from "./shared.js";\n',
            two='import { s } from "./shared.js";\n',
            shared="export const s = 1;\n",
        )
