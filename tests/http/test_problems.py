"""Every error response has the documented format, and no other error text is sent."""

import json
import logging

import pytest

from tmpmaild import errors
from tmpmaild.http import problems
from tmpmaild.http.problems import PROBLEMS, Problems
from tmpmaild.http.requests import Client

ADDRESSES = "/api/v1/addresses"
INBOX = f"{ADDRESSES}/unknown@mail.example.com"

PRODUCERS = [
    ("malformed-request", "POST", "/api/v1/addresses", {"body": b"{"}),
    ("bad-host", "GET", "/api/v1/addresses/unknown@mail.example.com", {"host": "a b"}),
    ("bad-host", "GET", "/api/v1/addresses/unknown@mail.example.com", {"host": None}),
    ("cross-site", "POST", "/api/v1/addresses", {"headers": {"Sec-Fetch-Site": "cross-site"}}),
    ("address-not-found", "GET", "/api/v1/addresses/unknown@mail.example.com", {}),
    ("address-not-found", "GET", "/api/v1/addresses/unknown@mail.example.com/messages", {}),
    ("address-not-found", "GET", "/api/v1/addresses/unknown@mail.example.com/messages/x/raw", {}),
    ("not-found", "GET", "/index.html", {}),
    ("not-found", "GET", "/api/v1/nothing", {}),
    ("not-found", "GET", "/problems/nothing", {}),
    ("not-found", "BREW", "/teapot", {}),
    ("method-not-allowed", "GET", "/api/v1/addresses", {}),
    ("method-not-allowed", "DELETE", "/api/v1/addresses/unknown@mail.example.com/messages.mbox", {}),
    ("method-not-allowed", "BREW", "/api/v1/addresses/unknown@mail.example.com", {}),
    ("method-not-allowed", "POST", "/problems/not-found", {}),
    ("unsupported-media-type", "POST", "/api/v1/addresses", {"body": b"{}", "headers": {"Content-Type": "text/plain"}}),
    ("invalid-request", "POST", "/api/v1/addresses", {"body": b"[]"}),
    ("invalid-request", "GET", "/api/v1/addresses/unknown@mail.example.com/messages?limit=0", {}),
    ("body-too-large", "POST", ADDRESSES, {"body": bytes(70_000)}),
    ("headers-too-large", "GET", INBOX, {"headers": {"X": "x" * 16_384}}),
]


def is_problem(answer, code, base_path=""):
    document = answer.json()
    assert answer.header("content-type") == "application/problem+json"
    assert set(document) - {"errors"} == {"type", "title", "status", "detail", "code"}
    assert document["code"] == code
    assert document["type"] == f"{base_path}/problems/{code}"
    assert document["title"] == PROBLEMS[code].title
    assert document["detail"]
    assert answer.status == document["status"] == PROBLEMS[code].status
    return True


@pytest.mark.parametrize(("code", "method", "target", "more"), PRODUCERS)
async def test_every_error_source_returns_the_same_kind_of_document(world, code, method, target, more):
    assert is_problem(await world.client().ask(method, target, **more), code)
    prefixed = world.client(public_url="https://host.example/mail/")
    assert is_problem(await prefixed.ask(method, target, **more), code, "/mail")


async def test_the_methods_of_a_path_are_listed_on_request_and_on_refusal(client, subtests):
    for target, allow in [
        ("/api/v1/addresses", "OPTIONS, POST"),
        ("/api/v1/addresses/unknown@mail.example.com", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("/api/v1/addresses/unknown@mail.example.com/messages", "DELETE, GET, HEAD, OPTIONS"),
        ("/api/v1/addresses/unknown@mail.example.com/messages.mbox", "GET, HEAD, OPTIONS"),
        ("/api/v1/addresses/unknown@mail.example.com/messages/x", "DELETE, GET, HEAD, OPTIONS"),
        ("/api/v1/addresses/unknown@mail.example.com/messages/x/view", "OPTIONS, POST"),
        ("/api/v1/addresses/unknown@mail.example.com/events", "GET, HEAD, OPTIONS"),
        ("/api/v1/domains", "GET, HEAD, OPTIONS"),
        ("/docs", "GET, HEAD, OPTIONS"),
        ("/problems/not-found", "GET, HEAD, OPTIONS"),
    ]:
        with subtests.test(target=target, allow=allow):
            refused = await client.ask("PUT", target)
            assert (refused.status, refused.header("allow")) == (405, allow)
            asked = await client.ask("OPTIONS", target)
            assert (asked.status, asked.header("allow"), asked.body) == (204, allow, b"")


async def test_head_is_supported_for_every_get(client):
    for target in (INBOX, INBOX + "/messages", "/problems/not-found"):
        head, got = await client.ask("HEAD", target), await client.get(target)
        assert (head.status, head.headers) == (got.status, got.headers)


def tree(error):
    yield error
    for child in error.__subclasses__():
        yield from tree(child)


def test_every_request_error_has_a_response():
    own = {error for error in tree(errors.RequestError) if error.__module__ == errors.__name__}
    assert own == set(problems._CODES)
    assert set(problems._CODES.values()) <= set(PROBLEMS)


@pytest.mark.parametrize("error", [*problems._CODES, errors.RequestError])
async def test_every_request_error_becomes_a_problem_and_a_special_case_becomes_its_base_error(error):
    arguments = {errors.AddressExpired: (0,), errors.InvalidRequest: (("/x", "y"),)}.get(error, ("secret",))
    code = problems._CODES.get(error, "internal-error")
    special = type("Special", (error,), {"__module__": __name__})
    for kind in (error, special, type("More", (special,), {"__module__": __name__})):
        answer = Problems("").response_to(_Request(), kind(*arguments))
        assert answer.media_type == "application/problem+json"
        assert (answer.status_code, json.loads(answer.body)["code"]) == (PROBLEMS[code].status, code)
        assert b"secret" not in answer.body


class _Request:
    path_params = {"address": "chosen@mail.example.com"}  # noqa: RUF012
    scope = {"tmpmaild.client": Client("192.0.2.1", exempt=False), "path": INBOX}  # noqa: RUF012


def broken_app(world, error, monkeypatch):
    """Make the service itself fail, as a disk error or a bug might."""

    async def fail(*_):
        raise error

    monkeypatch.setattr(world.storage, "find_inbox", fail)
    return world.client()


async def test_an_internal_error_has_an_id_that_also_appears_in_the_log(world, caplog, monkeypatch):
    client = broken_app(world, RuntimeError("secret 'words'"), monkeypatch)
    answer = await client.get(INBOX)
    assert is_problem(answer, "internal-error")
    assert (answer.header("x-content-type-options"), answer.header("cache-control")) == ("nosniff", "no-store")
    assert b"secret" not in answer.body
    fault_id = answer.json()["detail"].rpartition(" ")[2].rstrip(".")
    (record,) = caplog.records
    assert (record.levelno, record.args) == (logging.ERROR, (fault_id,))
    assert record.exc_info
    assert "unknown@" not in record.getMessage()


@pytest.mark.parametrize("error", [errors.StorageUnavailable("secret"), errors.Stopping(), errors.StorageFull("")])
async def test_temporary_problems_say_when_to_retry(world, caplog, monkeypatch, error):
    answer = await broken_app(world, error, monkeypatch).get(INBOX)
    assert answer.status == 503
    assert int(answer.header("retry-after")) > 0
    assert b"secret" not in answer.body


async def test_every_code_has_a_page_that_explains_it(client, subtests):
    for code in sorted(PROBLEMS):
        with subtests.test(code=code):
            answer = await client.get(f"/problems/{code}")
            assert answer.status == 200
            assert answer.header("content-type") == "text/html; charset=utf-8"
            assert answer.header("content-security-policy").startswith("default-src 'none'")
            assert f"<code>{code}</code>" in answer.body.decode()
            assert PROBLEMS[code].title in answer.body.decode()
            assert '<a href="../">' in answer.body.decode()


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"}
IN_A_FRAME = BROWSER | {"Sec-Fetch-Dest": "iframe"}
IN_A_TAB = BROWSER | {"Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/nowhere", BROWSER),
        ("/nowhere/<b>x", BROWSER),
        ("/problems/x", BROWSER),
        ("/api", BROWSER),
        ("/view/x", IN_A_TAB),
    ],
)
async def test_a_browser_that_follows_a_bad_link_gets_a_page_with_a_link_to_the_inbox(world, target, headers):
    client = world.client(public_url="https://host.example/mail")
    answer = await client.get(target, headers)
    assert (answer.status, answer.header("content-type")) == (404, "text/html; charset=utf-8")
    assert answer.header("vary") == "Accept, Sec-Fetch-Dest"
    assert set(answer.header("content-security-policy").split("; ")) == {
        "default-src 'none'",
        "style-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    }
    assert answer.header("cross-origin-opener-policy") == "same-origin"
    page = answer.body.decode()
    assert "<h1>404 Not found</h1>" in page
    assert '<a href="/mail/">' in page
    assert 'href="/mail/docs.css"' in page
    assert "<b>" not in page
    told = await client.ask("HEAD", target, headers)
    assert (told.status, told.header("content-type")) == (404, "text/html; charset=utf-8")


async def test_programs_frames_and_the_api_get_the_document(client, subtests):
    for method, target, headers in [
        ("GET", "/nowhere", {}),
        ("GET", "/nowhere", {"Accept": "*/*"}),
        ("GET", "/nowhere", {"Accept": "text/html;q=0"}),
        ("GET", "/nowhere", {"Accept": "text/html;q=0.5, application/json"}),
        (
            "GET",
            "/nowhere",
            {
                "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
                "Sec-Fetch-Dest": "iframe",
            },
        ),
        ("POST", "/nowhere", {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"}),
        ("POST", "/", {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"}),
        ("GET", "/view/x", {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"}),
        (
            "GET",
            "/view/x",
            {
                "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
                "Sec-Fetch-Dest": "iframe",
            },
        ),
        (
            "GET",
            "/api/v1/addresses/unknown@mail.example.com",
            {
                "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
                "Sec-Fetch-Dest": "document",
            },
        ),
        (
            "GET",
            "/api/v1/nothing",
            {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"},
        ),
        ("GET", "/nowhere", {"Accept": "text/html;" * 1000}),
    ]:
        with subtests.test(method=method):
            answer = await client.ask(method, target, headers)
            assert answer.header("content-type") == "application/problem+json"
            assert answer.header("vary") == (None if target.startswith("/api/") else "Accept, Sec-Fetch-Dest")
