"""Database URLs: the forms that libpq supports, and the parts that are never shown."""

import pytest

from tmpmaild.config.databaseurl import parse


@pytest.mark.parametrize(
    ("text", "hosts", "ports", "shown"),
    [
        ("postgresql://me@db/mail", ("db",), (5432,), "postgresql://me@db/mail"),
        ("postgres://db:6000/mail", ("db",), (6000,), "postgresql://db:6000/mail"),
        ("postgresql://me:p%40ss@[::1]:5433/mail", ("::1",), (5433,), "postgresql://me@[::1]:5433/mail"),
        ("postgresql://a:1,b,[2001:db8::1]/mail", ("a", "b", "2001:db8::1"), (1, 5432, 5432), None),
        ("postgresql:///mail?host=/run/postgresql&user=me", ("/run/postgresql",), (5432,), None),
        ("postgresql:///?host=a,b&port=1,2&dbname=mail", ("a", "b"), (1, 2), "postgresql://a:1,b:2/mail"),
        ("postgresql:///?host=a,b&port=6000&dbname=mail", ("a", "b"), (6000, 6000), None),
        ("postgresql://%2Frun%2Fpostgresql/mail", ("/run/postgresql",), (5432,), None),
        ("postgresql://db/mail?target_session_attrs=read-write&sslmode=verify-full", ("db",), (5432,), None),
    ],
)
def test_urls_that_libpq_accepts_are_accepted(text, hosts, ports, shown):
    url = parse(text)
    assert (url.hosts, url.ports, url.database) == (hosts, ports, "mail")
    assert shown in (None, str(url))


def test_the_password_is_parsed_and_never_shown():
    for text in ("postgresql://me:hunter%32@db/mail", "postgresql://me@db/mail?password=hunter2"):
        url = parse(text)
        assert url.password == "hunter2"
        assert "hunter" not in f"{url} {url!r}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "mysql://me:hunter2@db/mail",
        "postgresql://me:hunter2@db",
        "postgresql://me:hunter2@/mail",
        "postgresql://me:hunter2@db:x/mail",
        "postgresql://me:hunter2@db:70000/mail",
        "postgresql://me:hunter2@[::1/mail",
        "postgresql://me:hunter2@a,,b/mail",
        "postgresql://me:hunter2@a,b/mail?port=1,2,3",
        "postgresql://me:hunter2@db/mail?target_session_attrs=any",
        "postgresql://me:hunter2@db/mail?sslmode=maybe",
        "postgresql://me:hunter2@db/mail?options=-cfsync=off",
        "postgresql://me:hunter2@db/mail?hunter2",
        "postgresql://me:hunter2@db/mail#x",
    ],
)
def test_invalid_urls_are_refused_without_being_quoted(text):
    with pytest.raises(ValueError, match=r"^(?!.*hunter2)") as refusal:
        parse(text)
    assert refusal.value.__cause__ is None
