"""The pytest plugin: options, fixtures and the report of a failed test; ``services.py`` starts the daemon.

It costs nothing until a test uses a fixture: everything that is slow to import is imported then.
"""

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from tmpmaild.client import AsyncClient, AsyncInbox, Client, Inbox
    from tmpmaild.pytest_plugin.inboxes import Opened
    from tmpmaild.pytest_plugin.services import Service, SmtpServer

NewInbox: TypeAlias = "Callable[..., Inbox]"
"""What the fixture ``new_inbox`` is: it takes what ``Client.create`` does."""

_opened = pytest.StashKey[list["Opened"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the ini keys."""
    group = parser.getgroup("tmpmaild", "mail for tests (tmpmaild)")
    url = "Use the tmpmaild service at this URL (default: $TMPMAILD_URL, else an embedded daemon)."
    smtp = "Where that service takes mail, HOST or HOST:PORT (default: $TMPMAILD_SMTP, else the host of the URL)."
    group.addoption("--tmpmaild-url", metavar="URL", help=url)
    group.addoption("--tmpmaild-smtp", metavar="HOST:PORT", help=smtp)
    parser.addini("tmpmaild_url", url, default="")
    parser.addini("tmpmaild_smtp", smtp, default="")
    unknown = "The embedded daemon creates unknown addresses on their first mail (smtp.accept_unknown)."
    parser.addini("tmpmaild_accept_unknown", unknown, type="bool", default=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failed test the mails of its inboxes, which are still there until its teardown."""
    report = yield
    if report.failed and report.when != "teardown" and (opened := item.stash.get(_opened, [])):
        from tmpmaild.pytest_plugin.inboxes import section  # noqa: PLC0415 - only if a test used an inbox

        report.sections += [section(one) for one in opened]
    return report


@pytest.fixture(scope="session")
def _tmpmaild_service(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Generator["Service", None, None]:
    from tmpmaild.pytest_plugin import services  # noqa: PLC0415 - only if a test uses a fixture

    try:
        service = services.given(pytestconfig)
        if service is not None:
            yield service
            return
        accept_unknown = pytestconfig.getini("tmpmaild_accept_unknown")
        with services.embedded(tmp_path_factory.mktemp("tmpmaild"), accept_unknown=accept_unknown) as service:
            yield service
    except services.NoService as error:
        pytest.fail(f"tmpmaild: {error}", pytrace=False)


@pytest.fixture(scope="session")
def tmpmail(_tmpmaild_service: "Service") -> Iterator["Client"]:
    """Return a ``tmpmaild.client.Client`` for the given service, else for a daemon that ends with the session."""
    from tmpmaild.pytest_plugin.inboxes import client  # noqa: PLC0415 - only if a test uses a fixture

    with client(_tmpmaild_service) as opened:
        yield opened


@pytest.fixture(scope="session")
def tmpmail_smtp(_tmpmaild_service: "Service") -> "SmtpServer":
    """Return where to send mail, as the pair ``(host, port)``; also ``.host`` and ``.port``."""
    return _tmpmaild_service.smtp


@pytest.fixture(scope="session")
def _tmpmaild_async_client(_tmpmaild_service: "Service") -> Iterator["AsyncClient"]:
    from tmpmaild.pytest_plugin.inboxes import async_client  # noqa: PLC0415 - only if a test uses a fixture

    with async_client(_tmpmaild_service) as opened:
        yield opened


@pytest.fixture
def _tmpmaild_opened(request: pytest.FixtureRequest) -> Iterator[list["Opened"]]:
    from tmpmaild.pytest_plugin.inboxes import delete  # noqa: PLC0415 - only if a test uses a fixture

    opened: list[Opened] = []
    request.node.stash[_opened] = opened
    yield opened
    while opened:
        delete(opened.pop())


@pytest.fixture
def new_inbox(tmpmail: "Client", _tmpmaild_opened: list["Opened"]) -> NewInbox:
    """Return a function that creates inboxes: private by default, deleted after the test.

    It takes what ``Client.create`` takes.
    """
    from tmpmaild.pytest_plugin.inboxes import opened  # noqa: PLC0415 - only if a test uses a fixture

    def create(local_part: str | None = None, *, domain: str | None = None, private: bool = True) -> "Inbox":
        inbox = tmpmail.create(local_part, domain=domain, private=private)
        _tmpmaild_opened.append(opened(inbox))
        return inbox

    return create


@pytest.fixture
def inbox(new_inbox: NewInbox) -> "Inbox":
    """Return a fresh private inbox (``tmpmaild.client.Inbox``); it is deleted after the test."""
    return new_inbox()


@pytest.fixture
def async_inbox(_tmpmaild_async_client: "AsyncClient", _tmpmaild_opened: list["Opened"]) -> "AsyncInbox":
    """Return a fresh private inbox with ``await`` (``tmpmaild.client.AsyncInbox``), for any event loop."""
    from tmpmaild.pytest_plugin.inboxes import opened_async, run_in_thread  # noqa: PLC0415 - only if a test uses a fixture

    inbox: AsyncInbox = run_in_thread(_tmpmaild_async_client.create, None, private=True)
    _tmpmaild_opened.append(opened_async(inbox))
    return inbox
