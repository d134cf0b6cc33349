"""Recognises other protocols at the start of a line: nothing that follows may be run as a command.

The line need not be complete: such a line may have no end, be too long or not be text.
"""

import re

from tmpmaild.smtp import replies
from tmpmaild.smtp.lines import Input
from tmpmaild.smtp.replies import Reply

# A TLS hello; BDAT (RFC 3030), whose data follow without a reply; HTTP in the first line.
_OTHER = rb"\x16\x03|(?P<bdat>(?i:BDAT)[^!-~])"
_is_other = re.compile(_OTHER)
_is_other_at_first = re.compile(_OTHER + rb"|(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|CONNECT|TRACE|PATCH|PRI) ")


def refusal(waiting: Input, *, greeted: bool) -> Reply | None:
    """Return the last reply to a client that goes on in another protocol, None to others; HTTP comes ungreeted."""
    other = waiting.match(_is_other if greeted else _is_other_at_first)
    if other is None:
        return None
    return replies.NOT_IMPLEMENTED if other["bdat"] else replies.UNKNOWN_COMMAND
