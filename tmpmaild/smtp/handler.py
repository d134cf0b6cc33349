"""Answers the conversation's requests with ``InboxService``, and turns what it raises into replies."""

import logging
import secrets
import time
from collections.abc import Callable

from aiosmtpd.smtp import Envelope as AiosmtpdEnvelope
from aiosmtpd.smtp import Session

from tmpmaild.errors import RequestError, StorageUnavailable
from tmpmaild.inboxes.creating import Destination
from tmpmaild.inboxes.service import InboxService
from tmpmaild.model import AcceptedRecipient, Envelope, Handover
from tmpmaild.smtp import replies
from tmpmaild.smtp.faults import Delay, suffer
from tmpmaild.smtp.measures import SmtpMeasures
from tmpmaild.smtp.replies import Reply
from tmpmaild.smtp.requests import Recipient

log = logging.getLogger(__name__)


class SmtpEnvelope(AiosmtpdEnvelope):
    """aiosmtpd's envelope, with the destination of each of ``rcpt_tos`` and the time, in the same order.

    The rest is evidence for the reader of the mail: see ``Handover`` in ``model.py``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.destinations: list[Destination] = []
        self.accepted: list[AcceptedRecipient] = []
        self.parameters = ""
        self.greeting = ""
        self.auth = ""
        self.data_at_ms = 0
        self.delay = Delay()

    def accept(self, forward_path: str, destination: Destination, at_ms: int) -> Reply:
        """Add a recipient and return the reply that says so."""
        self.rcpt_tos.append(forward_path)
        self.destinations.append(destination)
        self.accepted.append(AcceptedRecipient(forward_path, at_ms))
        return replies.RECIPIENT_OK


class Handler:
    """An answer to each request that the product decides. Each method returns a whole reply and raises nothing.

    ``clock`` gives Unix milliseconds. ``creator`` maps an IP address to the client whose share pays for inboxes that
    its mail creates.
    """

    def __init__(
        self,
        service: InboxService,
        creator: Callable[[str], str | None],
        measures: SmtpMeasures,
        clock: Callable[[], int],
    ) -> None:
        self._service = service
        self._measures = measures
        self.clock = clock
        self._creator = creator

    def answer_sender(self, reverse_path: str, remote_ip: str) -> Reply:
        """Return, without waiting, whether a mail of this sender can be stored now."""
        try:
            # The client too: it may have been blocked since it connected.
            if self._service.blocks.has_sender(reverse_path) or self._service.blocks.has_client(remote_ip):
                return replies.BLOCKED_SENDER
            return replies.SENDER_OK if self._service.has_room() else replies.SYSTEM_FULL
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)

    def answer_recipient_now(self, envelope: SmtpEnvelope, recipient: Recipient) -> Reply | None:
        """Accept a recipient that is known without waiting; None: call ``answer_recipient``."""
        try:
            inbox_id = self._service.recipient_now(recipient.mailbox)
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)
        if inbox_id is None or self._service.faults.has([inbox_id], "rcpt"):
            return None
        return envelope.accept(recipient.forward_path, inbox_id, self.clock())

    async def answer_recipient(self, envelope: SmtpEnvelope, recipient: Recipient) -> Reply:
        """Accept a recipient that is a live inbox here, or the operator."""
        mailbox = recipient.mailbox
        if mailbox.domain and mailbox.domain not in self._service.mail_domains:
            return replies.NOT_OURS
        try:
            destination = await self._service.recipient(mailbox)
            refusal = await suffer(self._service.faults.take([destination], "rcpt"), envelope.delay)
            return refusal or envelope.accept(recipient.forward_path, destination, self.clock())
        except RequestError as error:
            return _refusal(error)
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)

    @property
    def has_faults(self) -> bool:
        """Whether faults can be ordered."""
        return self._service.faults.allowed

    def may_refuse_data(self, envelope: SmtpEnvelope) -> bool:
        """Return whether ``answer_data`` must be asked before the mail may come."""
        return self._service.faults.has(envelope.destinations, "data")

    async def answer_data(self, envelope: SmtpEnvelope, accept: Callable[[], Reply]) -> Reply:
        """Let the mail come as ``accept`` says, unless a refusal was ordered."""
        return await suffer(self._service.faults.take(envelope.destinations, "data"), envelope.delay) or accept()

    async def answer_mail(self, session: Session, envelope: SmtpEnvelope) -> Reply:
        """Store the mail; a 250 says that it is on disk."""
        assert isinstance(envelope.content, bytes)
        refusal = await suffer(self._service.faults.take(envelope.destinations, "end"), envelope.delay)
        if refusal is not None:
            return refusal
        octets, begun = len(envelope.content), time.monotonic()
        reply = await self._store(session, envelope, envelope.content)
        seconds = time.monotonic() - begun
        self._measures.count_mail(reply, octets, seconds)
        if reply.is_positive and log.isEnabledFor(logging.DEBUG):
            log.debug("mail accepted: %s, %d octets, %.1f ms", reply, octets, seconds * 1000)
        return reply

    async def _store(self, session: Session, envelope: SmtpEnvelope, content: bytes) -> Reply:
        stored_envelope = Envelope(
            sender=envelope.mail_from or "",
            recipients=tuple(envelope.rcpt_tos),
            helo=session.host_name or "",
            remote_ip=session.peer[0] if session.peer else "",
            tls=session.ssl is not None,
            session=_handover(session, envelope),
        )
        try:
            creator = self._creator(stored_envelope.remote_ip)
            return replies.stored(await self._service.deliver(stored_envelope, envelope.destinations, content, creator))
        except RequestError as error:
            return _refusal(error)
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)


def _handover(session: Session, envelope: SmtpEnvelope) -> Handover:
    tls = session.ssl or {}
    return Handover(
        envelope.greeting,
        tls.get("version", ""),
        tls.get("cipher", ""),
        envelope.auth,
        envelope.parameters,
        envelope.data_at_ms,
        tuple(envelope.accepted),
    )


def _refusal(error: RequestError) -> Reply:
    reply = replies.answer_to(error)
    logged = isinstance(error, StorageUnavailable)
    return our_fault(error) if reply is replies.OUR_FAULT and not logged else reply


def our_fault(error: BaseException) -> Reply:
    """Log what went wrong here and return the reply, which says nothing of it to the client."""
    log.error("SMTP request failed, id %s", secrets.token_hex(4), exc_info=error)
    return replies.OUR_FAULT
