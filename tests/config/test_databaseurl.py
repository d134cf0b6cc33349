"""The URL of a database: what libpq understands, and what is not shown."""

import pytest

from tables import rows_of
from tmpmaild.config.databaseurl import parse

ROWS = rows_of(__file__)


@pytest.mark.parametrize(("text", "hosts", "ports", "shown"), ROWS["what libpq understands is understood"])
def test_what_libpq_understands_is_understood(text, hosts, ports, shown):
    url = parse(text)
    assert (url.hosts, url.ports, url.database) == (hosts, ports, "mail")
    assert shown in (None, str(url))


def test_the_password_is_known_and_never_shown():
    for text in ("postgresql://me:hunter%32@db/mail", "postgresql://me@db/mail?password=hunter2"):
        url = parse(text)
        assert url.password == "hunter2"
        assert "hunter" not in f"{url} {url!r}"


@pytest.mark.parametrize("text", ROWS["what is no url is refused without being quoted"])
def test_what_is_no_url_is_refused_without_being_quoted(text):
    with pytest.raises(ValueError, match=r"^(?!.*hunter2)") as refusal:
        parse(text)
    assert refusal.value.__cause__ is None
