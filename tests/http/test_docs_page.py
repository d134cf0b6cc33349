"""The page ``/docs``: it says what the OpenAPI document says, as HTML without a script."""

import html
import json
import re
import shlex
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from tmpmaild.http import docspage, openapi
from tmpmaild.http.apioperations import OPERATIONS
from tmpmaild.http.files import DOCS_POLICY
from tmpmaild.http.markup import Html, tag
from tmpmaild.http.problems import PROBLEMS
from tmpmaild.http.schematexts import example, facts, type_text

DOCUMENT = json.loads(openapi.document("kit.test"))
PAGE = docspage.page(openapi.document("kit.test"), "https://host.example/mail").decode()
VOID = {"meta", "link"}


class Outline(HTMLParser):
    """Collects what a page refers to, its anchors, and its text; fails when an element is not closed."""

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


def article(operation_id, page=PAGE):
    found = re.search(rf'<article class="operation" id="{operation_id}">.*?</article>', page, re.DOTALL)
    return found[0]


def text_of(markup):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", markup))).strip()


def commands(operation_id, page=PAGE):
    blocks = re.findall(r"<pre[^>]*><code>(.*?)</code>", article(operation_id, page), re.DOTALL)
    return [html.unescape(block) for block in blocks if block.startswith("curl")]


async def test_it_is_served_for_the_first_domain_and_the_public_url_of_the_server(open_world):
    async with open_world(domains=("kit.test", "other.test")) as world:
        answer = await world.client(public_url="https://host.example/mail").get("/docs")
    assert (answer.status, answer.header("content-type")) == (200, "text/html; charset=utf-8")
    assert answer.body.decode() == PAGE
    assert answer.header("content-security-policy") == DOCS_POLICY


def test_it_holds_no_script_and_loads_its_style_alone():
    outline = Outline(PAGE)
    assert not outline.tags & {"script", "style", "img", "iframe", "form", "object", "base"}
    assert not re.search(r"<[^>]*\s(?:on\w+|style)=", PAGE)
    loaded = re.findall(r'<link rel="(\w+)" href="([^"]*)"', PAGE)
    assert [path for kind, path in loaded if kind == "stylesheet"] == ["docs.css"]
    assert {path for kind, path in loaded if kind == "icon"} == {docspage._ICON}
    assert "script-src" not in DOCS_POLICY


def test_every_link_leads_to_a_part_of_the_page_or_to_a_page_of_ours():
    outline = Outline(PAGE)
    assert len(set(outline.anchors)) == len(outline.anchors)
    own = {"./", "docs.css", "api/v1/openapi.json", docspage._ICON, *(f"problems/{code}" for code in PROBLEMS)}
    assert set(outline.references) - own <= {f"#{one}" for one in outline.anchors}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_every_operation_is_listed_and_tells_all_that_the_document_does(operation):
    markup, told = article(operation.id), text_of(article(operation.id))
    described = DOCUMENT["paths"][operation.path][operation.method.lower()]
    assert f'href="#{operation.id}"' in PAGE.partition("<main")[0]
    assert f"{operation.method} {operation.path}" in told
    assert operation.summary in told
    for parameter in described.get("parameters", ()):
        assert re.search(rf"\b{parameter['name']} {parameter['in']} ·", told)
    for status, answer in described["responses"].items():
        assert re.search(rf"<b>{status}</b>", markup)
        assert all(f"#header-{name}" in markup for name in answer["headers"] if not name.startswith("RateLimit"))
    for code in operation.problems:
        assert f'<a href="problems/{code}"><code>{code}</code></a>' in markup
        assert PROBLEMS[code].explanation in told
    assert commands(operation.id)


def test_every_type_is_told_with_its_members():
    for name, schema in DOCUMENT["components"]["schemas"].items():
        section = re.search(rf'<section id="type-{name}">.*?</section>', PAGE, re.DOTALL)[0]
        assert re.findall(r'<code class="name">(\w+)</code>', section) == list(schema["properties"])
        assert section.count('class="need"') == len(schema["required"])


def test_a_parameter_says_where_it_goes_and_what_it_may_be():
    told = text_of(article("listMessages"))
    assert "address path · string required The address, in any form that mail reaches it by." in told
    assert "limit query · integer How many messages at most. default 100 · 1 to 100 · for example 20" in told
    assert "order query · string Oldest or newest first. one of asc , desc · default desc" in told
    assert "after query · string Only what came after this message" in told
    assert "30 characters · matches ^msg_[0-7][0-9a-hjkmnp-tv-z]{25}$" in told


def test_a_request_body_has_its_fields():
    told = text_of(article("createAddress"))
    assert "Request body, optional application/json CreateRequest local_part string" in told
    assert "private boolean Reading needs the token too. default false" in told
    told = text_of(article("extendAddress"))
    assert "Request body application/json ExtendRequest expires_in_seconds integer" in told


def test_an_answer_has_an_example_made_of_its_schema():
    blocks = re.findall(r"<pre[^>]*><code>(.*?)</code>", article("listMessages"), re.DOTALL)
    (message,) = json.loads(html.unescape(blocks[-1]))["messages"]
    assert message["subject"] == "Confirm your address"
    assert message["attachments"][0]["filename"] == "terms.pdf"
    assert message["to"] == "k7m3wq9xt2ab+shop@kit.test"


ADDRESSES = "https://host.example/mail/api/v1/addresses"
ADDRESS = f"{ADDRESSES}/k7m3wq9xt2ab@kit.test"
MESSAGE = f"{ADDRESS}/messages/msg_01m7y0sgyf0000000000000000"
JSON = "-H 'Content-Type: application/json'"
TOKEN = '-H "Authorization: Bearer $TOKEN"'
SIGN_UP = (
    '{"local_part": "signup-test", "domain": "kit.test", "private": false, "expires_in_seconds": 600, "faults": []}'
)
FOLLOWED = (
    '{"inboxes": [{"address": "k7m3wq9xt2ab@kit.test", "token": "…", '
    '"after": "msg_01m7y0sgyf0000000000000000", "has": ["code"]}]}'
)
COMMANDS = {
    "createAddress": [
        f'curl -X POST "{ADDRESSES}"',
        f"""curl -X POST "{ADDRESSES}" {JSON} -d '{SIGN_UP}'""",
    ],
    "getAddress": [f'curl "{ADDRESS}"'],
    "extendAddress": [f'curl -X PATCH "{ADDRESS}" {TOKEN} {JSON} -d \'{{"expires_in_seconds": 1800, "faults": []}}\''],
    "deleteAddress": [f'curl -X DELETE "{ADDRESS}" {TOKEN}'],
    "getSource": [f'curl -OJ "{MESSAGE}/raw"'],
    "getAttachment": [f'curl -OJ "{MESSAGE}/attachments/0"'],
    "followAddress": [f'curl -N "{ADDRESS}/events"'],
    "followAddresses": [f"""curl -X POST -N "https://host.example/mail/api/v1/events" {JSON} -d '{FOLLOWED}'"""],
    "lookAtView": ['curl "https://host.example/mail/view/$SECRET"'],
}


@pytest.mark.parametrize(("operation", "expected"), COMMANDS.items())
def test_every_operation_has_its_command_line(operation, expected):
    assert [one.replace(" \\\n  ", " ") for one in commands(operation)] == expected


def test_without_an_address_the_commands_go_to_the_default_port():
    page = docspage.page(openapi.document()).decode()
    assert commands("listDomains", page) == ['curl "http://localhost:8025/api/v1/domains"']
    assert text_of(page).count("Base http://localhost:8025") == 1


def test_what_a_shell_would_run_stays_text_in_a_command():
    (command,) = commands("listDomains", docspage.page(openapi.document(), 'https://host.example/$(x)`y`"z').decode())
    assert command == r'curl "https://host.example/\$(x)\`y\`\"z/api/v1/domains"'
    assert shlex.split(docspage._quoted("it's")) == ["it's"]


def test_every_text_is_escaped():
    hostile = "<img src=x onerror=alert(1)>\"'&"
    document = json.loads(openapi.document())
    document["info"] = dict.fromkeys(document["info"], hostile)
    for one in document["tags"]:
        one["description"] = f"`{hostile}` *em {hostile}* {hostile}"
    for schema in document["components"]["schemas"].values():
        schema["description"] = hostile
        for member in schema["properties"].values():
            member |= {"examples": [hostile], "description": hostile, "pattern": hostile, "default": hostile}
    page = docspage.page(json.dumps(document).encode(), f"https://host.example/{hostile}").decode()
    assert "<img" not in page
    assert Outline(page).tags == Outline(PAGE).tags | {"em"}


def test_a_little_markdown_is_drawn():
    assert docspage._prose("One `a<b`,\n``c`` *more*.\n\nTwo */*.") == (
        '<div class="prose"><p>One <code>a&lt;b</code>,\n<code>c</code> <em>more</em>.</p><p>Two */*.</p></div>'
    )


def test_markup_escapes_texts_and_attributes_alone():
    assert tag("a", "<", Html("<b>"), href='"', class_="x", aria_label="y") == (
        '<a href="&quot;" class="x" aria-label="y">&lt;<b></a>'
    )


NULLABLE = {"anyOf": [{"type": "string", "format": "date-time", "examples": ["2026"]}, {"type": "null"}]}
SCHEMAS = [
    ({"type": "string"}, "string", "", ""),
    ({"type": "integer", "minimum": 1}, "integer", "at least 1", 1),
    ({"type": "number", "maximum": 2}, "number", "at most 2", 0),
    ({"type": "string", "minLength": 2, "maxLength": 2}, "string", "2 characters", ""),
    ({"enum": ["a", "b"]}, "string", "one of <code>a</code>, <code>b</code>", "a"),
    ({"type": "boolean", "default": False}, "boolean", "default <code>false</code>", False),
    (NULLABLE, "string, date-time | null", "for example <code>2026</code>", "2026"),
    ({"type": "array", "items": {"type": "string"}}, "array of string", "", [""]),
    ({"type": "array", "prefixItems": [{"type": "string"}] * 2}, "[string, string]", "", ["", ""]),
    ({"$ref": "#/components/schemas/X"}, '<a href="#type-X">X</a>', "", {"a": True}),
    ({"type": "object"}, "object", "", {}),
]


@pytest.mark.parametrize(("schema", "kind", "more", "value"), SCHEMAS)
def test_a_schema_is_told_in_words_and_has_an_example(schema, kind, more, value):
    types = {"X": {"properties": {"a": {"type": "boolean", "examples": [True]}}}}
    told = SimpleNamespace(kind=type_text(schema), more=facts(schema), value=example(schema, types))
    assert (told.kind, told.more, told.value) == (kind, more, value)


def test_the_page_is_small():
    assert len(PAGE.encode()) < 7_000 * len(OPERATIONS)
