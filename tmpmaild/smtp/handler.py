"""Answers the conversation's questions with the product: aiosmtpd's handler hooks over ``InboxService``."""

import logging
import secrets
from collections.abc import Callable
from typing import Any

from aiosmtpd.smtp import Envelope as AiosmtpdEnvelope

from tmpmaild.errors import RequestError, StorageLost
from tmpmaild.inboxes.service import InboxService
from tmpmaild.mail import addresses
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope
from tmpmaild.smtp import replies
from tmpmaild.smtp.replies import Reply

log = logging.getLogger(__name__)


class SmtpEnvelope(AiosmtpdEnvelope):
    """aiosmtpd's envelope, with the inboxes that ``rcpt_tos`` stand for, in the same order."""

    def __init__(self) -> None:
        super().__init__()
        self.inbox_ids: list[str] = []

    def accept(self, written: str, inbox_id: str) -> Reply:
        """Add a recipient and return the reply that says so."""
        self.rcpt_tos.append(written)
        self.inbox_ids.append(inbox_id)
        return replies.RECIPIENT_OK


class Handler:
    """The hooks ``handle_RCPT`` and ``handle_DATA``, and what can be said without waiting.

    Each returns a whole reply and raises nothing. ``creator`` names, by its IP address, the client whose share pays for
    inboxes that its mail creates.
    """

    def __init__(self, service: InboxService, creator: Callable[[str], str | None]) -> None:
        self._service = service
        self._creator = creator

    def mail_now(self) -> Reply:
        """Tell without waiting whether a mail would be welcome."""
        try:
            return replies.SENDER_OK if self._service.has_room() else replies.SYSTEM_FULL
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)

    def recipient_now(self, envelope: SmtpEnvelope, mailbox: Mailbox, written: str) -> Reply | None:
        """Accept a recipient that is known without waiting, or return None: then ask ``handle_RCPT``."""
        try:
            inbox_id = self._service.recipient_now(mailbox)
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)
        return envelope.accept(written, inbox_id) if inbox_id else None

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: SmtpEnvelope, address: str, _options: list[str]
    ) -> Reply:
        """Accept a path that names a live inbox of ours, or the operator."""
        mailbox = addresses.parse_path(address.encode(), utf8=True)
        if mailbox.domain and mailbox.domain not in self._service.domains:
            return replies.NOT_OURS
        try:
            return envelope.accept(address, await self._service.recipient(mailbox))
        except RequestError as error:
            return _refusal(error)
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)

    async def handle_DATA(self, _server: Any, session: Any, envelope: SmtpEnvelope) -> Reply:  # noqa: N802
        """Store the mail; a 250 says that it is on disk."""
        assert isinstance(envelope.content, bytes)
        transaction = Envelope(
            sender=envelope.mail_from or "",
            recipients=tuple(envelope.rcpt_tos),
            helo=session.host_name or "",
            remote_ip=session.peer[0] if session.peer else "",
            tls=session.ssl is not None,
        )
        try:
            creator = self._creator(transaction.remote_ip)
            stored = await self._service.deliver(transaction, envelope.inbox_ids, envelope.content, creator)
            return replies.stored(stored)
        except RequestError as error:
            return _refusal(error)
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)


def _refusal(error: RequestError) -> Reply:
    reply = replies.answer_to(error)
    logged = isinstance(error, StorageLost)
    return our_fault(error) if reply is replies.OUR_FAULT and not logged else reply


def our_fault(error: BaseException) -> Reply:
    """Log what went wrong here and return the reply to whoever it hit, which says nothing of it."""
    log.error("SMTP request failed, id %s", secrets.token_hex(4), exc_info=error)
    return replies.OUR_FAULT
