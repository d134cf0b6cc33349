"""Messages parsed in the same way as on delivery."""

import msgspec

from tmpmaild.mail import mime


def read(raw):
    """Parse a message; the body is always text, even if the parser returns only its position in the source."""
    mail = mime.parse(raw)
    if isinstance(mail.body, str):
        return mail
    body = raw[mail.body.start : mail.body.end].decode().replace("\r\n", "\n")
    return msgspec.structs.replace(mail, body=body)
