"""Content-IDs by which HTML refers to images of its own message (RFC 2392)."""

import re
from itertools import islice
from urllib.parse import unquote

from tmpmaild.mail.htmltokens import unescaped_attribute

_MAX_CONTENT_IDS = 1000
_MAX_CHARACTERS = 4 * 1024 * 1024

_CONTENT_ID = re.compile(r"""=\s*+(?:"\s*+cid:([^"]*+)"|'\s*+cid:([^']*+)'|cid:([^\s"'>]++))""", re.IGNORECASE)


def referred_to(html: str) -> frozenset[str]:
    """Return the Content-IDs that the HTML may show as images, a thousand at most.

    This is a quick search of the source: ``render`` may not use all of them.
    """
    references = {match[1] or match[2] or match[3] for match in _CONTENT_ID.finditer(html[:_MAX_CHARACTERS])}
    found = (content_id(unescaped_attribute(reference or "")) for reference in islice(references, _MAX_CONTENT_IDS))
    return frozenset(found) - {""}


def content_id(reference: str) -> str:
    """Decode what follows ``cid:`` (RFC 2392, section 2); some clients write the angle brackets too."""
    return unquote(reference).strip().removeprefix("<").removesuffix(">")
