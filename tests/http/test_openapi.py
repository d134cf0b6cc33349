"""The OpenAPI description is valid and complete; ``tests/test_stable.py`` checks that no part of it is removed."""

import json
from urllib.parse import urljoin

import pytest

from tmpmaild.http.app import OPERATIONS, describe_api
from tmpmaild.http.inputs import PageQuery
from tmpmaild.http.openapi import Operation, Returns, declared
from tmpmaild.http.problems import PROBLEMS


@pytest.fixture(scope="module")
def document():
    return json.loads(describe_api())


def references(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from [inner] if name == "$ref" else references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def found(document, reference):
    value = document
    for name in reference.removeprefix("#/").split("/"):
        value = value[name]
    return value


async def test_its_examples_are_accepted_by_the_server_that_shows_them(open_world):
    """A server for ``kit.test`` would refuse an example with a different domain."""
    async with open_world(domains=("kit.test", "other.test")) as world:
        client = world.client()
        shown = (await client.get("/api/v1/openapi.json")).json()
        members = shown["components"]["schemas"]["CreateRequest"]["properties"]
        wish = {name: member["examples"][0] for name, member in members.items() if "examples" in member}
        assert wish["domain"] == "kit.test"
        answer = await client.post(body=wish)
        assert (answer.status, answer.json()["address"]) == (201, f"{wish['local_part']}@kit.test")
    assert "mail.example.com" not in json.dumps(shown)


def test_every_reference_can_be_resolved_and_every_problem_is_described(document):
    seen = set(references(document))
    assert len(seen) > 10
    for reference in seen:
        assert found(document, reference)
    for operation in OPERATIONS:
        described = document["paths"][operation.path][operation.method.lower()]["responses"]
        for code in operation.problems:
            assert f"`{code}`" in described[str(PROBLEMS[code].status)]["description"]


def test_paths_lie_below_where_the_document_lies(document):
    (server,) = document["servers"]
    assert urljoin("https://host.example/mail/api/v1/openapi.json", server["url"]) == "https://host.example/mail/"


async def test_it_is_served_and_contains_the_public_url_if_it_is_set(open_world):
    async with open_world() as world:
        answer = await world.client(public_url="https://host.example/mail").get("/api/v1/openapi.json")
        assert (answer.status, answer.header("content-type")) == (200, "application/json")
        assert answer.json()["servers"] == [{"url": "https://host.example/mail"}]


@pytest.mark.parametrize(
    "url", ["https://mail.example.com", "https://tmpmail.example.com/mail.example.com", "https://kit.test"]
)
def test_the_public_url_is_shown_unchanged(url):
    """The public URL may contain the example domain, and our text may contain the server's domain."""
    for domain in ("kit.test", "mail.example.com", "mail.example.com.kit.test"):
        shown = json.loads(describe_api(domain, url))
        assert shown.pop("servers") == [{"url": url}]
        assert shown["info"]["contact"]["email"] == f"postmaster@{domain}"
        plain = json.dumps(shown).replace(domain, "mail.example.com")
        assert json.loads(plain) == {key: json.loads(describe_api())[key] for key in shown}


def test_operations_that_need_a_token_say_so(document):
    address = document["paths"]["/api/v1/addresses/{address}"]
    assert address["delete"]["security"] == [{"token": []}]
    assert address["get"]["security"] == [{}, {"token": []}]
    assert document["paths"]["/api/v1/addresses"]["post"]["security"] == []


def test_an_endpoint_declares_its_operation_and_the_problems_follow():
    class Endpoints:
        @Operation("GET /api/v1/things", "listThings", Returns(200, "Things."), ("busy",), query=PageQuery)
        async def list(self, request):
            """List things.

            Returns all existing things,
            and no others.
            """

        async def helper(self):
            """Do nothing: a method that is not an endpoint."""

    (operation,) = declared(Endpoints).values()
    assert (operation.summary, operation.description) == ("List things", "Returns all existing things, and no others.")
    usual = {"cross-site", "rate-limited", "bad-host", "headers-too-large", "internal-error", "stopping"}
    assert set(operation.problems) == {"busy", "invalid-request", *usual}
