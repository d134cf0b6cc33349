"""Content-IDs that HTML uses to refer to images in its own message (RFC 2392)."""

import re
from itertools import islice
from urllib.parse import unquote

from tmpmaild.mail.htmltokens import unescaped_attribute

_MAX_CONTENT_IDS = 1000
_MAX_CHARACTERS = 4 * 1024 * 1024

_CONTENT_ID = re.compile(r"""=\s*+(?:"\s*+cid:([^"]*+)"|'\s*+cid:([^']*+)'|cid:([^\s"'>]++))""", re.IGNORECASE)


def referred_to(html: str) -> frozenset[str]:
    """Return at most a thousand Content-IDs that the HTML may show as images.

    This is a quick search of the source, so ``render`` may not use all of these ids.
    """
    references = {match[1] or match[2] or match[3] for match in _CONTENT_ID.finditer(html[:_MAX_CHARACTERS])}
    found = (content_id(unescaped_attribute(reference or "")) for reference in islice(references, _MAX_CONTENT_IDS))
    return frozenset(found) - {""}


def content_id(reference: str) -> str:
    """Decode the text after ``cid:`` (RFC 2392, section 2); some clients include the angle brackets."""
    return unquote(reference).strip().removeprefix("<").removesuffix(">")
