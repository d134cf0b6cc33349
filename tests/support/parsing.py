"""Messages as delivery parses them."""

import msgspec

from tmpmaild.mail import mime


def read(raw):
    """Parse a message; its body is text even where the parser only says where in the source it is."""
    mail = mime.parse(raw)
    if isinstance(mail.body, str):
        return mail
    body = raw[mail.body.start : mail.body.end].decode().replace("\r\n", "\n")
    return msgspec.structs.replace(mail, body=body)
