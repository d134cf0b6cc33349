"""Roughly how many characters messages have as JSON: what a cache may hold, what an answer may be sent in one piece.

A page is counted once, when it is read (``Listing.characters``), and not at each request that the cache answers.
"""

from collections.abc import Iterable

from tmpmaild.model import Attachment, Findings, Message

# Names, punctuation, ids and numbers of each JSON object.
_MESSAGE_CHARACTERS = 350
_ATTACHMENT_CHARACTERS = 400
_CODE_CHARACTERS = 40
_LINK_CHARACTERS = 50


def page_characters(messages: Iterable[Message]) -> int:
    """Return the size of all messages of a page."""
    return sum([message_characters(message) for message in messages])


def message_characters(message: Message) -> int:
    """Return the size of a message with its attachments and findings."""
    senders = len(message.from_address) + len(message.from_name) + len(message.recipient)
    plain = _MESSAGE_CHARACTERS + len(message.body) + len(message.subject) + senders
    if not message.attachments and not message.findings.links and not message.findings.codes:
        return plain
    attachments = sum([_attachment_characters(one) for one in message.attachments])
    return plain + attachments + findings_characters(message.findings)


def findings_characters(findings: Findings) -> int:
    """Return the size of the codes and links of a message."""
    codes = sum([_CODE_CHARACTERS + len(code.value) for code in findings.codes])
    return codes + sum([_LINK_CHARACTERS + len(link.href) + len(link.text) for link in findings.links])


def _attachment_characters(attachment: Attachment) -> int:
    texts = len(attachment.filename) + len(attachment.content_type) + len(attachment.content_id or "")
    return _ATTACHMENT_CHARACTERS + texts
