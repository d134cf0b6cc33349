"""The rules from RFC 4287 and the W3C's feed validator that can be checked offline."""

import re
from collections import Counter
from datetime import datetime
from xml.etree import ElementTree as ET

_ATOM = "{http://www.w3.org/2005/Atom}"
_ONCE = {"id", "title", "updated"}
_FEED = {*_ONCE, "link", "generator", "entry"}
_ENTRY = {*_ONCE, "published", "author", "link", "content"}
# The feed validator's regular expression for tag URIs (RFC 4151 §2.1).
_tag_uri = re.compile(r"tag:[a-z0-9.-]+,\d{4}-\d\d-\d\d:[\w;/?:@&=+$.\-!~*'()%,#]+", re.ASCII).fullmatch
_email = re.compile(r"[^\s@<>]+(?:@[^\s@<>]+)*@[A-Za-z0-9.-]+", re.ASCII).fullmatch


def texts(element, name):
    """Return the texts of the child elements with this name."""
    return [child.text or "" for child in element.findall(_ATOM + name)]


def entries(octets):
    """Parse a feed, check the rules, and return its entries, each as element, title and text."""
    feed = ET.fromstring(octets)
    assert feed.tag == f"{_ATOM}feed"
    _hold(feed, _FEED)
    found = feed.findall(f"{_ATOM}entry")
    for entry in found:
        _hold(entry, _ENTRY)
        _hold_author(entry)
        (content,) = entry.findall(f"{_ATOM}content")
        assert (content.get("type"), len(content)) == ("text", 0)
    ids = [identity for one in (feed, *found) for identity in texts(one, "id")]
    assert len(set(ids)) == len(ids)
    updated = [texts(one, "updated")[0] for one in found]
    assert updated == sorted(updated, reverse=True)
    assert not updated or texts(feed, "updated") == updated[:1]
    return [(entry, *texts(entry, "title"), *texts(entry, "content")) for entry in found]


def link(element, rel):
    """Return the URL of the link with this relation."""
    (found,) = [one.get("href") for one in element.findall(f"{_ATOM}link") if one.get("rel") == rel]
    return found


def _hold(element, known):
    count = Counter(child.tag.removeprefix(_ATOM) for child in element)
    assert set(count) <= known
    assert all(count[name] == 1 for name in _ONCE)
    assert all(_tag_uri(text) for text in texts(element, "id"))
    assert texts(element, "title")[0].strip()
    for text in texts(element, "updated") + texts(element, "published"):
        assert datetime.fromisoformat(text).utcoffset() is not None
    links = [(one.get("rel"), one.get("type")) for one in element.findall(f"{_ATOM}link")]
    assert len(set(links)) == len(links)
    assert all(one.get("href") for one in element.findall(f"{_ATOM}link"))


def _hold_author(entry):
    (author,) = entry.findall(f"{_ATOM}author")
    assert [child.tag.removeprefix(_ATOM) for child in author] in (["name"], ["name", "email"])
    assert texts(author, "name")[0].strip()
    assert all(_email(text) for text in texts(author, "email"))
