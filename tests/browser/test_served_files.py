"""The style sheet and script of the inbox as served: a browser treats them in the same way as our source files."""

import re
from pathlib import Path

import pytest

from scripts import scripts_of
from tmpmaild.http.bundling import minify_style

SCRIPTS = scripts_of(__file__)

WEB = Path(__file__).parents[2] / "tmpmaild/web"


declared = re.compile(r"^(?:export )?(?:const|let|class|function|async function) +(\w+)", re.MULTILINE).findall


@pytest.mark.browsers("firefox")
async def test_a_browser_reads_the_same_rules_in_the_served_style_and_in_the_source(pages):
    page = await pages.borrow()
    texts = [path.read_text() for path in sorted((WEB / "styles").iterdir())]
    written = [await page.evaluate(SCRIPTS["RULES"], text) for text in texts]
    served = [await page.evaluate(SCRIPTS["RULES"], minify_style(text)) for text in texts]
    assert served == written
    assert sum(map(len, written)) > 200


@pytest.mark.browsers("firefox")
async def test_no_name_in_a_module_hides_a_browser_global_from_a_different_module(pages):
    """All modules share one scope when they are joined."""
    names = sorted({name for path in WEB.glob("*.js") for name in declared(path.read_text())})
    assert len(names) > 200
    page = await pages.borrow()
    assert await page.evaluate("names => names.filter((name) => name in window)", names) == []
