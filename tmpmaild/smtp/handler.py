"""Answers the conversation's requests with ``InboxService``, and turns what it raises into replies."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence

from aiosmtpd.smtp import Envelope as AiosmtpdEnvelope
from aiosmtpd.smtp import Session

from tmpmaild.errors import RequestError, StorageUnavailable
from tmpmaild.inboxes.creating import Destination
from tmpmaild.inboxes.faults import Step
from tmpmaild.inboxes.service import InboxService
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import AcceptedRecipient, Envelope, SmtpSession
from tmpmaild.smtp import replies
from tmpmaild.smtp.bounds import UnknownRecipients
from tmpmaild.smtp.connections import SmtpMeasures
from tmpmaild.smtp.replies import Recipient, Reply

log = logging.getLogger(__name__)


class SmtpEnvelope(AiosmtpdEnvelope):
    """aiosmtpd's envelope, with the destination of each of ``rcpt_tos`` and the time, in the same order.

    The rest is evidence for the reader of the mail: see ``SmtpSession`` in ``model.py``.
    """

    content: bytes | None = None
    parameters = greeting = auth = ""
    data_at_ms = 0
    _delay: asyncio.Future[Reply] | None = None

    def __init__(self, mail_from: str = "") -> None:
        # Instead of the base's constructor, which sets what is not used here.
        self.mail_from = mail_from
        self.rcpt_tos: list[str] = []
        self.destinations: list[Destination] = []
        self.accepted: list[AcceptedRecipient] = []

    async def wait(self, seconds: float) -> Reply | None:
        """Return None after so many seconds, or the reply with which ``end_wait`` was called before."""
        self._delay = asyncio.get_running_loop().create_future()
        try:
            return await asyncio.wait_for(self._delay, seconds)
        except TimeoutError:
            return None
        finally:
            self._delay = None

    def end_wait(self, reply: Reply) -> None:
        """End the wait, if there is one, with a reply that is sent if the client still reads."""
        if self._delay is not None and not self._delay.done():
            self._delay.set_result(reply)

    def accept(self, forward_path: str, destination: Destination, at_ms: int) -> Reply:
        """Add a recipient and return the reply that says so."""
        self.rcpt_tos.append(forward_path)
        self.destinations.append(destination)
        self.accepted.append(AcceptedRecipient(forward_path, at_ms))
        return replies.RECIPIENT_OK


class Handler:
    """An answer to each request that the product decides. Each method returns a whole reply and raises nothing.

    ``clock`` gives Unix milliseconds. ``client`` maps an IP address to the client that limits are kept for, None for an
    exempt one; its share pays for inboxes that its mail creates.
    """

    def __init__(
        self,
        service: InboxService,
        client: Callable[[str], str | None],
        unknown: UnknownRecipients,
        measures: SmtpMeasures,
        clock: Callable[[], int],
    ) -> None:
        self._service = service
        self._faults, self._blocks = service.faults, service.blocks
        self._measures = measures
        self.clock = clock
        self._client = client
        self._unknown = unknown

    def answer_sender(self, reverse_path: str, remote_ip: str) -> Reply:
        """Return, without waiting, whether a mail of this sender can be stored now."""
        try:
            # The client too: it may have been blocked since it connected.
            blocks = self._blocks
            if blocks.has_any and (blocks.has_sender(reverse_path) or blocks.has_client(remote_ip)):
                return replies.BLOCKED_SENDER
            return replies.SENDER_OK if self._service.has_room() else replies.SYSTEM_FULL
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)

    def answer_recipient_now(self, envelope: SmtpEnvelope, recipient: Recipient, remote_ip: str) -> Reply | None:
        """Accept a recipient that is known without waiting; None: call ``answer_recipient``."""
        if not self._unknown.may_name(self._client(remote_ip)):
            return replies.UNKNOWN_TOO_OFTEN
        try:
            inbox_id = self._service.recipient_now(recipient.mailbox)
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)
        if inbox_id is None or (self._faults.ordered and self._faults.has([inbox_id], "rcpt")):
            return None
        return envelope.accept(recipient.forward_path, inbox_id, self.clock())

    async def answer_recipient(self, envelope: SmtpEnvelope, recipient: Recipient, remote_ip: str) -> Reply:
        """Accept a recipient that is a live inbox here, or the operator."""
        mailbox = recipient.mailbox
        if mailbox.domain and mailbox.domain not in self._service.mail_domains:
            return replies.NOT_OURS
        destination = await self._look_up(mailbox, self._client(remote_ip))
        if type(destination) is Reply:
            return destination
        try:
            refusal = await self._suffer([destination], "rcpt", envelope)
            return refusal or envelope.accept(recipient.forward_path, destination, self.clock())
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)

    async def _look_up(self, mailbox: Mailbox, client: str | None) -> Destination | Reply:
        """Return where mail for a mailbox goes, or the reply that refuses it; an unknown one costs a token."""
        if not self._unknown.take(client):
            return replies.UNKNOWN_TOO_OFTEN
        found: Destination | Reply
        try:
            found = await self._service.recipient(mailbox)
        except RequestError as error:
            found = _refusal(error)
        except Exception as error:  # noqa: BLE001 - logged there
            found = our_fault(error)
        if found is not replies.UNKNOWN_RECIPIENT:
            self._unknown.put_back(client)
        return found

    @property
    def has_faults(self) -> bool:
        """Whether faults can be ordered."""
        return self._faults.allowed

    def may_refuse_data(self, envelope: SmtpEnvelope) -> bool:
        """Return whether ``answer_data`` must be asked before the mail may come."""
        return bool(self._faults.ordered) and self._faults.has(envelope.destinations, "data")

    async def answer_data(self, envelope: SmtpEnvelope, accept: Callable[[], Reply]) -> Reply:
        """Let the mail come as ``accept`` says, unless a refusal was ordered."""
        return await self._suffer(envelope.destinations, "data", envelope) or accept()

    async def _suffer(self, destinations: Sequence[Destination], step: Step, envelope: SmtpEnvelope) -> Reply | None:
        """Wait as long as a fault that was ordered says; return its reply, None where the delivery goes on."""
        fault = self._faults.take(destinations, step)
        if fault is None:
            return None
        ended = await envelope.wait(fault.delay_seconds) if fault.delay_seconds else None
        if ended is not None or fault.reply is None:
            return ended
        return replies.ordered(fault.reply)

    async def answer_mail(self, session: Session, envelope: SmtpEnvelope) -> Reply:
        """Store the mail; a 250 says that it is on disk."""
        assert envelope.content is not None
        if self._faults.ordered and (refusal := await self._suffer(envelope.destinations, "end", envelope)):
            return refusal
        content, begun = envelope.content, time.monotonic()
        remote_ip = session.peer[0] if session.peer else ""
        stored = Envelope(
            sender=envelope.mail_from or "",
            recipients=tuple(envelope.rcpt_tos),
            helo=session.host_name or "",
            remote_ip=remote_ip,
            tls=session.ssl is not None,
            session=_handover(session, envelope),
        )
        try:
            creator = self._client(remote_ip)
            reply = replies.stored(await self._service.deliver(stored, envelope.destinations, content, creator))
        except RequestError as error:
            reply = _refusal(error)
        except Exception as error:  # noqa: BLE001 - logged there
            reply = our_fault(error)
        seconds = time.monotonic() - begun
        self._measures.count_mail(reply, len(content), seconds)
        if reply.is_positive and log.isEnabledFor(logging.DEBUG):
            log.debug("mail accepted: %s, %d octets, %.1f ms", reply, len(content), seconds * 1000)
        return reply


def _handover(session: Session, envelope: SmtpEnvelope) -> SmtpSession:
    tls = session.ssl or {}
    return SmtpSession(
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
