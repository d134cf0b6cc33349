"""A number and its noun."""

from tmpmaild.model import counted


def test_one_of_something_is_not_said_in_the_plural():
    told = [counted(0, "inbox", "inboxes"), counted(1, "inbox", "inboxes"), counted(2, "mail"), counted(1, "mail")]
    assert told == ["0 inboxes", "1 inbox", "2 mails", "1 mail"]
    assert counted(12_000, "mail", spec=",") == "12,000 mails"
