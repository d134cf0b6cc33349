"""The pytest plugin: options and fixtures; ``embedded.py`` starts the daemon.

It costs nothing until a test uses a fixture, because modules that are slow to import are imported only then.
"""

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tmpmaild.client import AllMail, AsyncAllMail, AsyncInbox, Client, Inbox
    from tmpmaild.pytest_plugin.embedded import Service, SmtpServer
    from tmpmaild.pytest_plugin.inboxes import Clients, Opened, OpenedAllMail

NewInbox: TypeAlias = "Callable[..., Inbox]"
"""The type of the fixture ``new_inbox``: a function with the arguments of ``Client.create``."""

_opened = pytest.StashKey[list["Opened"]]()
_clients = pytest.StashKey["Clients"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the ini keys."""
    group = parser.getgroup("tmpmaild", "mail for tests (tmpmaild)")
    url = "Use the tmpmaild service at this URL (default: $TMPMAILD_URL, else an embedded daemon)."
    smtp = "The mail server of that service, HOST or HOST:PORT (default: $TMPMAILD_SMTP, else the host of the URL)."
    group.addoption("--tmpmaild-url", metavar="URL", help=url)
    group.addoption("--tmpmaild-smtp", metavar="HOST:PORT", help=smtp)
    parser.addini("tmpmaild_url", url, default="")
    parser.addini("tmpmaild_smtp", smtp, default="")
    domain = "The domains of the embedded daemon, the first for new addresses (default: mail.example.com)."
    parser.addini("tmpmaild_domain", domain, type="args", default=[])
    file = "A configuration file for the embedded daemon, relative to this ini file."
    parser.addini("tmpmaild_config", file, default="")
    dns = "A master file of DNS zones, relative to this ini file, with which the embedded daemon authenticates senders."
    parser.addini("tmpmaild_dns", dns, default="")
    tls = "The embedded daemon offers TLS, with its own certificate (needs trustme)."
    parser.addini("tmpmaild_tls", tls, type="bool", default=False)
    unknown = "The embedded daemon creates unknown addresses when they first receive mail (smtp.accept_unknown)."
    parser.addini("tmpmaild_accept_unknown", unknown, type="bool", default=False)
    catching = "The embedded daemon accepts every recipient, and all_mail contains every message."
    parser.addini("tmpmaild_catch_all", catching, type="bool", default=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the messages in the inboxes of a failed test; the inboxes exist until its teardown."""
    report = yield
    if report.failed and report.when != "teardown" and (opened := item.stash.get(_opened, [])):
        from tmpmaild.pytest_plugin.inboxes import extend  # noqa: PLC0415 - imported only if a test used an inbox

        extend(report, opened, item.config.stash[_clients], item.config)
    return report


@pytest.fixture(scope="session")
def _tmpmaild_service(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Generator["Service", None, None]:
    from tmpmaild.pytest_plugin import embedded  # noqa: PLC0415 - imported only if a test uses a fixture

    try:
        service = embedded.given(pytestconfig)
        if service is not None:
            yield service
            return
        with embedded.daemon(tmp_path_factory.mktemp("tmpmaild"), embedded.wanted(pytestconfig)) as service:
            yield service
    except embedded.NoService as error:
        raise pytest.fail.Exception(f"tmpmaild: {error}", pytrace=False) from None


@pytest.fixture(scope="session")
def _tmpmaild_clients(pytestconfig: pytest.Config, _tmpmaild_service: "Service") -> Iterator["Clients"]:
    from tmpmaild.pytest_plugin.inboxes import clients  # noqa: PLC0415 - imported only if a test uses a fixture

    with clients(_tmpmaild_service) as opened:
        pytestconfig.stash[_clients] = opened
        yield opened


@pytest.fixture(scope="session")
def tmpmail(_tmpmaild_clients: "Clients") -> "Client":
    """Return a ``tmpmaild.client.Client`` for the configured service, or for a daemon that runs during the session."""
    return _tmpmaild_clients.plain


@pytest.fixture
def _tmpmaild_all_mail(pytestconfig: pytest.Config, _tmpmaild_clients: "Clients") -> Iterator["OpenedAllMail"]:
    from tmpmaild.pytest_plugin import embedded  # noqa: PLC0415 - imported only if a test uses a fixture
    from tmpmaild.pytest_plugin.inboxes import all_mail_of  # noqa: PLC0415 - imported only if a test uses a fixture

    is_shared = embedded.given(pytestconfig) is not None and hasattr(pytestconfig, "workerinput")
    with all_mail_of(_tmpmaild_clients, is_shared=is_shared) as found:
        yield found


@pytest.fixture
def all_mail(_tmpmaild_all_mail: "OpenedAllMail") -> "AllMail":
    """Return all messages of a catcher (``tmpmaild.client.AllMail``); they are deleted after the test.

    Tests that run in parallel against one service see each other's messages. In this case, each call needs ``to=``, and
    the messages are not deleted.
    """
    return _tmpmaild_all_mail.all_mail


@pytest.fixture
def async_all_mail(_tmpmaild_all_mail: "OpenedAllMail") -> "AsyncAllMail":
    """Return ``all_mail`` for asynchronous code (``tmpmaild.client.AsyncAllMail``), in any event loop."""
    return _tmpmaild_all_mail.async_all_mail


@pytest.fixture(scope="session")
def tmpmail_smtp(_tmpmaild_service: "Service") -> "SmtpServer":
    """Return the address of the SMTP server as a tuple ``(host, port)`` with the attributes ``host`` and ``port``."""
    return _tmpmaild_service.smtp


@pytest.fixture(scope="session")
def tmpmail_smtps(_tmpmaild_service: "Service") -> "SmtpServer":
    """Return the address of the SMTP server with implicit TLS (``tmpmaild_tls``) as a tuple ``(host, port)``."""
    if _tmpmaild_service.smtps is None:
        pytest.fail("tmpmaild: tmpmail_smtps needs the embedded daemon and tmpmaild_tls = true", pytrace=False)
    return _tmpmaild_service.smtps


@pytest.fixture(scope="session")
def tmpmail_ca_file(_tmpmaild_service: "Service") -> "Path":
    """Return the PEM file of the authority that issued the embedded daemon's certificate (``tmpmaild_tls``)."""
    if _tmpmaild_service.ca_file is None:
        pytest.fail("tmpmaild: tmpmail_ca_file needs the embedded daemon and tmpmaild_tls = true", pytrace=False)
    return _tmpmaild_service.ca_file


@pytest.fixture
def _tmpmaild_opened(request: pytest.FixtureRequest, _tmpmaild_clients: "Clients") -> Iterator[list["Opened"]]:
    from tmpmaild.pytest_plugin.inboxes import delete  # noqa: PLC0415 - imported only if a test uses a fixture

    if ending := _tmpmaild_clients.service.ended():
        pytest.fail(f"tmpmaild: {ending}", pytrace=False)
    opened: list[Opened] = []
    request.node.stash[_opened] = opened
    yield opened
    while opened:
        delete(opened.pop().inbox)


@pytest.fixture
def new_inbox(_tmpmaild_clients: "Clients", _tmpmaild_opened: list["Opened"]) -> NewInbox:
    """Return a function that creates inboxes, private by default; they are deleted after the test.

    It has the arguments of ``Client.create``.
    """

    def create(local_part: str | None = None, *, private: bool = True, **wanted: Any) -> "Inbox":
        opened = _tmpmaild_clients.create(local_part, private=private, **wanted)
        _tmpmaild_opened.append(opened)
        return opened.inbox

    return create


@pytest.fixture
def inbox(new_inbox: NewInbox) -> "Inbox":
    """Return a new private inbox (``tmpmaild.client.Inbox``); it is deleted after the test."""
    return new_inbox()


@pytest.fixture
def async_inbox(_tmpmaild_opened: list["Opened"], new_inbox: NewInbox) -> "AsyncInbox":
    """Return a new private inbox for asynchronous code (``tmpmaild.client.AsyncInbox``), in any event loop."""
    new_inbox()
    return _tmpmaild_opened[-1].async_inbox
