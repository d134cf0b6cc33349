"""The ``/docs`` page: the first three calls and the operations in the OpenAPI document, as HTML without JavaScript."""

import html
import json
import re
from html.parser import HTMLParser

import pytest

from tmpmaild.http import pages
from tmpmaild.http.app import OPERATIONS, describe_api
from tmpmaild.http.files import DOCS_POLICY

DOCUMENT = json.loads(describe_api("kit.test"))
PAGE = pages.docs(describe_api("kit.test"), "https://host.example/mail").decode()
VOID = {"meta", "link"}


class Outline(HTMLParser):
    """Collects a page's references, anchors and tags; fails if an element is not closed."""

    def __init__(self, text):
        super().__init__()
        self.references, self.anchors, self.tags, self._open = [], [], set(), []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, name, attributes):
        given = dict(attributes)
        self.tags.add(name)
        self.references += [given[key] for key in ("href", "src") if key in given]
        self.anchors += [given["id"]] if "id" in given else []
        if name not in VOID:
            self._open.append(name)

    def handle_endtag(self, name):
        assert self._open.pop() == name


def text_of(markup):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", markup))).strip()


def commands(page=PAGE):
    return [html.unescape(one) for one in re.findall(r"<pre[^>]*><code>(.*?)</code>", page, re.DOTALL)]


async def test_it_is_served_for_the_first_domain_and_the_public_url_of_the_server(open_world):
    async with open_world(domains=("kit.test", "other.test")) as world:
        answer = await world.client(public_url="https://host.example/mail").get("/docs")
    assert (answer.status, answer.header("content-type")) == (200, "text/html; charset=utf-8")
    assert answer.body.decode() == PAGE
    assert answer.header("content-security-policy") == DOCS_POLICY


def test_it_contains_no_script_and_only_links_to_our_pages():
    outline = Outline(PAGE)
    assert not outline.tags & {"script", "style", "img", "iframe", "form", "object", "base"}
    assert not re.search(r"<[^>]*\s(?:on\w+|style)=", PAGE)
    assert set(outline.references) == {"./", "data:,", "docs.css", "api/v1/openapi.json"}
    assert "script-src" not in DOCS_POLICY


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_shows_its_input_and_its_errors(operation):
    told = text_of(re.search(rf'<article id="{operation.id}">.*?</article>', PAGE, re.DOTALL)[0])
    described = DOCUMENT["paths"][operation.path][operation.method.lower()]
    assert f"{operation.summary} {operation.method} {operation.path}" in told
    assert ("requires the token" in told) == (operation.security != "none")
    taken = [one["name"] for one in described.get("parameters", ())]
    taken += [] if operation.body is None else operation.body.__struct_encode_fields__
    assert [one for one in taken if f" {one} " not in told] == []
    assert [code for code in operation.problems if f" {code} :" not in told] == []


ADDRESSES = "https://host.example/mail/api/v1/addresses"


def test_the_first_three_calls_are_commands_for_a_shell_that_runs_nothing_else():
    assert commands() == [
        f'curl -X POST "{ADDRESSES}"',
        f'curl "{ADDRESSES}/$ADDRESS/messages?wait=30"',
        f'curl -X DELETE "{ADDRESSES}/$ADDRESS" -H "Authorization: Bearer $TOKEN"',
    ]
    command, *_ = commands(pages.docs(describe_api()).decode())
    assert command == 'curl -X POST "http://localhost:8025/api/v1/addresses"'
    command, *_ = commands(pages.docs(describe_api(), 'https://host.example/$(x)`y`"z').decode())
    assert command == r'curl -X POST "https://host.example/\$(x)\`y\`\"z/api/v1/addresses"'


def test_every_text_is_escaped():
    hostile = "<img src=x onerror=alert(1)>\"'&"
    document = json.loads(describe_api())
    document["info"] = dict.fromkeys(document["info"], hostile)
    for one in document["tags"]:
        one["description"] = f"`{hostile}` {hostile}"
    for schema in document["components"]["schemas"].values():
        for member in schema["properties"].values():
            member |= {"description": hostile}
    page = pages.docs(json.dumps(document).encode(), f"https://host.example/{hostile}").decode()
    assert "<img" not in page
    assert Outline(page).tags == Outline(PAGE).tags
    assert pages.tag("a", "<", pages.Html("<b>"), href='"', class_="x") == '<a href="&quot;" class="x">&lt;<b></a>'
