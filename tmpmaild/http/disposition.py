"""The Content-Disposition and Content-Type of an attachment; of its content only whether it is an image counts."""

import re
from urllib.parse import quote

from tmpmaild.mail import extracts, headers, mime

MAX_NAME_BYTES = 240
"""Of UTF-8; written twice, and once of three characters an octet, it keeps the field below 1 KiB."""

_MAX_EXTENSION_BYTES = 20

# What Windows forbids in names: a file would be saved under another name, or as an alternate data stream.
_FORBIDDEN = re.compile(r'[<>:"|?*\\/]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)[0-9¹²³])(?![^. ])", re.IGNORECASE)
# Some browsers undo percent-encoding in the plain form (RFC 6266 appendix D).
_NOT_PLAIN = re.compile(r"[^ -~]|%")
_ATTR_CHAR = "!#$&+-.^_`|~"

_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_CHARSET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,39}")
_ACTIVE = re.compile(
    r"(?:text|application)/(?:x-)?(?:java|ecma|j|live|vb)script[0-9.]*"
    r"|text/(?:html|css|xsl|xml-external-parsed-entity)"
    r"|[^/]+/(?:[^/]*\+)?xml"
    r"|application/(?:wasm|xslt|xml-.*)"
    r"|multipart/.*"
)
_MAY_BE_IMAGES = mime.IMAGE_TYPES | {"application/octet-stream"}


def attachment(filename: str, fallback: str) -> str:
    """Return a Content-Disposition value (RFC 6266) that makes a browser keep a file, under a safe name.

    Whatever the name, it is one line of printable ASCII below 1 KiB; ``fallback`` is used where nothing of the
    name is left. A name that is not plain ASCII is given in the form of RFC 8187 too.
    """
    name = _name(filename) or _name(fallback) or "attachment"
    plain = _NOT_PLAIN.sub("_", name)
    value = f'attachment; filename="{plain}"'
    return value if plain == name else f"{value}; filename*=UTF-8''{quote(name, safe=_ATTR_CHAR)}"


def content_type(stated: str, content: bytes) -> str:
    """Return the media type (RFC 6838 §4.2) to send an attachment under: the stated one, for programs.

    What is said to be an image of a kind that views show, or octets, is sent as the image that a view would take it
    for, else as octets: the page shows what is sent so, and need not recognise images as well.

    The answer has ``nosniff``, ``attachment`` and a CSP sandbox, and so is never shown as a page. None of these
    keeps a page of our own origin from loading it as a script or style, which the page's CSP allows; only the type
    does. So what a browser may run, HTML, XML and SVG, scripts and styles, and what is not a media type at all, is
    ``application/octet-stream``. Of the parameters a clean charset of a text is kept.
    """
    media_type, parameters = headers.parameters(stated)
    if not _MEDIA_TYPE.fullmatch(media_type) or _ACTIVE.fullmatch(media_type):
        return "application/octet-stream"
    if media_type in _MAY_BE_IMAGES:
        return extracts.image_type(content) or "application/octet-stream"
    charset = parameters.get("charset", "")
    if media_type.startswith("text/") and _CHARSET.fullmatch(charset):
        return f"{media_type}; charset={charset}"
    return media_type


def _name(stated: str) -> str:
    """Return a name that every system can save a file by, cut before its extension; "" when nothing is left."""
    name = _FORBIDDEN.sub("_", " ".join(mime.last_component(stated).split())).rstrip(". ")
    if _DEVICE.match(name):
        name = f"_{name}"
    return _cut(name)


def _cut(name: str) -> str:
    """Cut a name to ``MAX_NAME_BYTES`` and keep its extension, unless that is too long to be one."""
    octets = name.encode()
    if len(octets) <= MAX_NAME_BYTES:
        return name
    _, dot, extension = name.rpartition(".")
    kept = (dot + extension).encode()
    if len(kept) > _MAX_EXTENSION_BYTES:
        kept = b""
    return octets[: MAX_NAME_BYTES - len(kept)].decode("utf-8", "ignore").rstrip(". ") + kept.decode()
