"""The description of the API: sound by itself, complete; ``tests/test_stable.py`` keeps it from shrinking."""

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


async def test_its_examples_are_taken_by_the_server_that_shows_them(open_world):
    """Where ``kit.test`` is served, an example at another domain would be refused."""
    async with open_world(domains=("kit.test", "other.test")) as world:
        client = world.client()
        shown = (await client.get("/api/v1/openapi.json")).json()
        members = shown["components"]["schemas"]["CreateRequest"]["properties"]
        wish = {name: member["examples"][0] for name, member in members.items() if "examples" in member}
        assert wish["domain"] == "kit.test"
        answer = await client.post(body=wish)
        assert (answer.status, answer.json()["address"]) == (201, f"{wish['local_part']}@kit.test")
    assert "mail.example.com" not in json.dumps(shown)


def test_every_reference_leads_somewhere_and_every_problem_is_described(document):
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


async def test_it_is_served_and_names_the_server_where_the_operator_has_named_it(open_world):
    async with open_world() as world:
        answer = await world.client(public_url="https://host.example/mail").get("/api/v1/openapi.json")
        assert (answer.status, answer.header("content-type")) == (200, "application/json")
        assert answer.json()["servers"] == [{"url": "https://host.example/mail"}]


@pytest.mark.parametrize(
    "url", ["https://mail.example.com", "https://tmpmail.example.com/mail.example.com", "https://kit.test"]
)
def test_what_the_operator_has_named_stays_as_it_is(url):
    """The domain of the examples may be in it, as the domain of the server may be in ours."""
    for domain in ("kit.test", "mail.example.com", "mail.example.com.kit.test"):
        shown = json.loads(describe_api(domain, url))
        assert shown.pop("servers") == [{"url": url}]
        assert shown["info"]["contact"]["email"] == f"postmaster@{domain}"
        plain = json.dumps(shown).replace(domain, "mail.example.com")
        assert json.loads(plain) == {key: json.loads(describe_api())[key] for key in shown}


def test_what_needs_a_token_says_so(document):
    address = document["paths"]["/api/v1/addresses/{address}"]
    assert address["delete"]["security"] == [{"token": []}]
    assert address["get"]["security"] == [{}, {"token": []}]
    assert document["paths"]["/api/v1/addresses"]["post"]["security"] == []


def test_an_endpoint_declares_its_operation_and_the_problems_follow():
    class Endpoints:
        @Operation("GET /api/v1/things", "listThings", Returns(200, "Things."), ("busy",), query=PageQuery)
        async def list(self, request):
            """List things.

            Those that are there,
            and no others.
            """

        async def helper(self):
            """Is no endpoint."""

    (operation,) = declared(Endpoints).values()
    assert (operation.summary, operation.description) == ("List things", "Those that are there, and no others.")
    usual = {"cross-site", "rate-limited", "bad-host", "headers-too-large", "internal-error", "stopping"}
    assert set(operation.problems) == {"busy", "invalid-request", *usual}
