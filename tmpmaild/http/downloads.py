"""Downloads of untrusted bytes, with a safe file name and media type."""

import re
from urllib.parse import quote

from starlette.responses import Response

from tmpmaild.mail import extracts, filenames, headers, mime

MAX_NAME_BYTES = 240
"""In UTF-8. The field contains the name twice, once with three characters per byte; this limit keeps the field below 1
KiB."""
# Windows forbids these characters in file names. A file would be saved under a different name, or as an alternate data
# stream.
_FORBIDDEN = re.compile(r'[<>:"|?*\\/]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)[0-9¹²³])(?![^. ])", re.IGNORECASE)
# Some browsers decode percent-encoding in the plain form (RFC 6266 appendix D).
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


def file_headers(content_type: str, disposition: str) -> dict[str, str]:
    """Return the header fields for a download of untrusted bytes."""
    return {
        "Content-Type": content_type,
        "Content-Disposition": disposition,
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }


class FileResponse(Response):
    """A download of untrusted bytes. If a browser renders them anyway, the CSP sandbox makes them harmless.

    In a large response, ``tail`` is sent after the body, because joining the two would copy megabytes in the event
    loop.
    """

    def __init__(self, content_type: str, disposition: str, body: bytes, tail: bytes = b"") -> None:
        fields = file_headers(content_type, disposition)
        super().__init__(body, headers={**fields, "Content-Length": str(len(body) + len(tail))})
        self.tail = tail


def attachment_disposition(filename: str, fallback: str) -> str:
    """Return a Content-Disposition value (RFC 6266) that makes a browser save a file under a safe name.

    For any name, the value is a single line of less than 1 KiB of printable ASCII. If the name contains no usable
    characters, ``fallback`` is used. A name that is not plain ASCII is also included in RFC 8187 encoding.
    """
    name = _name(filename) or _name(fallback) or "attachment"
    plain = _NOT_PLAIN.sub("_", name)
    value = f'attachment; filename="{plain}"'
    return value if plain == name else f"{value}; filename*=UTF-8''{quote(name, safe=_ATTR_CHAR)}"


def attachment_type(stated: str, content: bytes) -> str:
    """Return the media type (RFC 6838 §4.2) for an attachment's response, which is usually the stated type.

    If the stated type is ``application/octet-stream`` or an image type that views show, the type is detected from the
    content, as in a view. Unrecognised content is sent as ``application/octet-stream``. The page relies on this type
    and need not detect images itself.

    The response has ``nosniff``, ``attachment`` and a CSP sandbox, so it is never shown as a page. However, only the
    media type can prevent a page on our own origin from loading it as a script or style sheet, which the page's CSP
    allows. Therefore, types that a browser may run (HTML, XML, SVG, scripts, styles) and invalid types become
    ``application/octet-stream``. The only parameter that is kept is a valid charset of a text type.
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
    """Return a file name that is valid on every system, shortened before its extension; "" if nothing is left."""
    name = _FORBIDDEN.sub("_", " ".join(filenames.last_component(stated).split())).rstrip(". ")
    if _DEVICE.match(name):
        name = f"_{name}"
    return filenames.shortened(name, MAX_NAME_BYTES)
