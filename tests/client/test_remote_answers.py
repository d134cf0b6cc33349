"""Errors from responses: problems, other servers, no server, newer servers; no error contains the token."""

import logging
import pickle
import ssl
import subprocess
import sys
from traceback import TracebackException

import httpx2
import pytest

from tmpmaild import client as api
from tmpmaild.client import errors, transport
from tmpmaild.client.transport import Request
from tmpmaild.http.problems import PROBLEMS

# This client's requests never cause these errors: they are raised as ``Problem`` with their code.
NOT_OURS = {
    *("malformed-request", "cross-site", "method-not-allowed", "request-timeout", "body-too-large"),
    *("unsupported-media-type", "headers-too-large"),
}


def test_every_problem_that_a_caller_can_get_is_an_exception_with_its_name():
    assert set(errors.PROBLEMS) == set(PROBLEMS) - NOT_OURS
    for code, kind in errors.PROBLEMS.items():
        assert kind.__name__ == "".join(word.capitalize() for word in code.split("-"))
        assert getattr(api, kind.__name__) is kind


@pytest.mark.parametrize("code", sorted(PROBLEMS))
def test_a_problem_is_raised_as_the_exception_with_its_name(connect, scripted, code):
    status = PROBLEMS[code].status
    members = b', "errors": [{"pointer": "/a", "detail": "b", "more": 1}], "more": 1'
    scripted.say(scripted.problem(status, code, members=members))
    with pytest.raises(errors.PROBLEMS.get(code, api.Problem)) as raised:
        connect(scripted.url).domains()
    error = raised.value
    assert (error.status, error.code, error.detail) == (status, code, "No.")
    assert error.errors == (api.FieldError("/a", "b"),)
    assert str(error) == f"a: b ({status} {code})"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.errors) == (type(error), str(error), error.errors)


def test_a_problem_is_shown_without_pointers_and_with_one_full_stop_at_most(connect, scripted):
    found = b'"errors": [{"pointer": "/a/b", "detail": "one"}, {"pointer": "q", "detail": "two"}, {"detail": "three"}]'
    told = []
    for body in [b'{"code": "x", "detail": "No way."}', b'{"code": "x", "detail": "Wrong.", %s}' % found]:
        scripted.say(scripted.json(body, status="400 No"))
        with pytest.raises(api.Problem) as raised:
            connect(scripted.url).domains()
        told.append(str(raised.value))
    assert told == ["No way (400 x)", "a.b: one; q: two; three (400 x)"]


def test_an_unknown_problem_is_still_a_problem_and_its_control_characters_do_not_reach_a_terminal(connect, scripted):
    scripted.say(scripted.problem(418, "teapot", "Retry-After: Sat, 21 Nov 2026 03:00:00 GMT"))
    with pytest.raises(api.Problem) as raised:
        connect(scripted.url).domains()
    assert type(raised.value) is api.Problem
    assert (raised.value.status, raised.value.code, raised.value.retry_after_seconds) == (418, "teapot", None)
    body = b'{"code": "\\u001b[31m", "detail": "a\\u0007\\u202eb\\n"}'
    scripted.say(scripted.json(body, status="400 No"))
    with pytest.raises(api.Problem) as raised:
        connect(scripted.url).domains()
    assert str(raised.value) == "a\ufffd\ufffdb\ufffd (400 \ufffd[31m)"


def test_text_in_any_language_is_shown_unchanged_and_control_characters_are_replaced():
    for text in ("5\u00a0€", "東京\u3000駅", "\U0001f469\u200d\U0001f4bb", "naïve “so”"):
        assert errors.printable(text) == text
    for code in (0, 9, 10, 0x1B, 0x7F, 0x80, 0x9B, 0x61C, 0x200E, 0x2028, 0x2029, 0x202E, 0x2066, 0xD800):
        assert errors.printable(f"a{chr(code)}b") == "a\ufffdb", code


def test_the_reason_for_an_unreachable_server_is_given(connect, nobody, url):
    for place, said in (
        (nobody, f"^{nobody}: connection refused; is tmpmaild running there\\?$"),
        ("http://nowhere.invalid", r"^http://nowhere\.invalid: (?!.*nknown error).*; is tmpmaild running there\?$"),
        (url.replace("http", "https"), "no TLS connection .*; does the server use http://"),
    ):
        with pytest.raises(api.ServiceUnreachable, match=said):
            connect(place).create()


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (b"<html>Welcome</html>", {"kind": "text/html"}),
        (b"<html>Not Found</html>", {"kind": "text/html", "status": "404 Not Found"}),
        (b'{"error": "no"}', {"status": "500 Oops"}),
        (b'{"domains": "all"}', {}),
        (b"[]", {}),
        (b"", {}),
        (b"\xff", {}),
        (b"not gzip", {"status": "200 OK\r\nContent-Encoding: gzip"}),
        (b'{"x": ' + b"[" * 100_000, {}),
    ],
)
def test_another_server_is_recognised(connect, scripted, body, more):
    scripted.say(scripted.json(body, **more))
    with pytest.raises(api.NotTmpmaild, match=r"(is not tmpmaild|sent a body).*; is the URL right") as raised:
        connect(scripted.url).domains()
    assert scripted.url in str(raised.value)


def test_a_server_without_http_is_recognised_and_a_redirect_is_reported_and_not_followed(connect, scripted):
    scripted.say(b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n")
    with pytest.raises(api.NotTmpmaild, match="does not speak HTTP"):
        connect(scripted.url).domains()
    place = "Location: https://mail.example/x/api/v1/domains"
    scripted.say(scripted.json(b"", place, status="308 Permanent Redirect"))
    with pytest.raises(api.NotTmpmaild, match=r"308 .*points to https://mail\.example/x; use that URL"):
        connect(scripted.url).domains()


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_without_a_service_is_recognised(connect, scripted, status):
    scripted.say(scripted.gateway(status))
    with pytest.raises(api.ConnectionLost, match=f"{status} from a proxy; is tmpmaild running behind it"):
        connect(scripted.url).domains()


@pytest.mark.parametrize("octets", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_a_broken_connection_is_reported(connect, scripted, octets):
    scripted.say(octets)
    with pytest.raises(api.ConnectionLost, match="the connection broke"):
        connect(scripted.url).domains()


def test_an_untrusted_certificate_is_reported():
    refusal = ssl.SSLCertVerificationError(
        1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed (_ssl.c:1006)"
    )
    refusal.verify_message = "IP address mismatch, certificate is not valid for '192.0.2.1'."
    error = httpx2.ConnectError("failed")
    error.__cause__ = refusal
    assert str(transport.translated(Request("https://192.0.2.1", "GET", "/"), error)) == (
        "https://192.0.2.1: the certificate is not trusted: IP address mismatch, certificate is not valid for '192.0.2.1'"
    )


def test_additional_fields_of_a_newer_server_are_accepted(connect, scripted):
    more = {"colour": ["red"], "codes": [{"value": "481516", "kind": "otp"}], "from": "a@b.test"}
    scripted.say(scripted.address(owner={}), scripted.messages("msg_1", **more))
    (mail,) = connect(scripted.url).inbox("x@a.test").messages()
    assert (mail.sender, mail.code) == ("a@b.test", "481516")


def test_the_plain_create_has_no_body(connect, scripted):
    scripted.say(scripted.address(token="t"))
    client = connect(scripted.url)
    client.create()
    client.create("name", private=True)
    assert [asked.body for asked in scripted.asked] == [b"", b'{"local_part":"name","private":true}']


def test_the_token_is_in_one_header_field_and_nowhere_else(connect, scripted, caplog):
    caplog.set_level(logging.DEBUG)
    token = "5ecre7" * 8
    scripted.say(scripted.address(token=token), scripted.problem(404, "address-not-found"), b"")
    inbox = connect(scripted.url).create(private=True)
    shown = [repr(inbox), str(inbox)]
    for _ in range(2):
        with pytest.raises(api.TmpmaildError) as raised:
            inbox.delete()
        shown += [repr(raised.value), *locals_of_the_client(raised.value)]
    shown += [record.getMessage() for record in caplog.records if not record.name.startswith("httpcore")]
    assert inbox.token == token
    assert [asked.headers.get("authorization") for asked in scripted.asked] == [None, *[f"Bearer {token}"] * 2]
    assert [text for text in [*shown, *[asked.target for asked in scripted.asked]] if token in text] == []


def locals_of_the_client(error):
    frames = TracebackException.from_exception(error, capture_locals=True).stack
    return [text for frame in frames if "/tmpmaild/client/" in frame.filename for text in frame.locals.values()]


def test_a_missing_response_is_reported_with_the_time_waited():
    request = Request("http://a.test", "GET", "/api/v1/domains", read_seconds=30)
    error = transport.translated(request, httpx2.ReadTimeout("timed out"))
    assert isinstance(error, api.ConnectionLost)
    assert str(error) == "http://a.test: no response within 30 s"


def test_without_httpx2_the_error_names_the_package_to_install():
    code = "import sys; sys.modules['httpx2'] = None; import tmpmaild.client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("ImportError: the client needs httpx2: pip install httpx2\n")


def test_an_invalid_response_to_create_does_not_reveal_the_token(connect, scripted):
    scripted.say(scripted.json(b'{"address": "x@a.test", "token": "5ecre7"}'))
    with pytest.raises(api.NotTmpmaild) as raised:
        connect(scripted.url).create()
    assert "5ecre7" not in "".join([str(raised.value), *locals_of_the_client(raised.value)])


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", "ä", "\x7f"])
def test_an_invalid_token_is_refused_and_not_shown(client, token):
    with pytest.raises(ValueError, match=r"a token consists of printable ASCII characters$"):
        client.inbox("x@mail.example.com", token)
