"""The style sheet of the inbox as it is served: a browser reads the same rules in it as in what we wrote."""

from pathlib import Path

import pytest

from tmpmaild.http.minify import minify_style

WEB = Path(__file__).parents[2] / "tmpmaild/web"
# Values with variables in them keep the spaces with which they were written.
RULES = """text => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  return [...sheet.cssRules].map((rule) => rule.cssText.replaceAll(/\\s+/g, ' ').replaceAll(', ', ','));
}"""


@pytest.mark.browsers("firefox")
async def test_a_browser_reads_the_same_rules_in_the_style_we_serve_and_in_what_we_wrote(pages):
    page = await pages.borrow()
    texts = [path.read_text() for path in sorted((WEB / "styles").iterdir())]
    written = [await page.evaluate(RULES, text) for text in texts]
    served = [await page.evaluate(RULES, minify_style(text)) for text in texts]
    assert served == written
    assert sum(map(len, written)) > 200
