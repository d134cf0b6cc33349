"""Handles the conversation's requests with the ``Deliverer``, and converts its exceptions to replies."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence

from aiosmtpd.smtp import Envelope as AiosmtpdEnvelope
from aiosmtpd.smtp import Session
from msgspec.structs import replace

from tmpmaild.clients import client_name
from tmpmaild.errors import RequestError, StorageUnavailable
from tmpmaild.inboxes.delivering import Destination
from tmpmaild.inboxes.faults import Step
from tmpmaild.inboxes.service import InboxService
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import AcceptedRecipient, Envelope, SmtpSession
from tmpmaild.ratelimit import TokenBuckets, changed_buckets
from tmpmaild.scheduling.clients import on_behalf_of
from tmpmaild.scheduling.usage import Timer
from tmpmaild.smtp import replies
from tmpmaild.smtp.replies import MailFrom, Recipient, Reply

log = logging.getLogger(__name__)


class SmtpEnvelope(AiosmtpdEnvelope):
    """aiosmtpd's envelope, with an additional destination and time for each entry in ``rcpt_tos``, in the same order.

    ``client`` is the client to which limits apply, or None if the client is exempt. The other fields are shown to the
    reader of the message; see ``SmtpSession`` in ``model.py``.
    """

    content: bytes | None = None
    greeting = auth = ""
    data_at_ms = 0
    _delay: asyncio.Future[Reply] | None = None

    def __init__(self, sender: MailFrom, client: str | None, remote_ip: str) -> None:
        # The base class constructor is not called, because it sets attributes that are not used here.
        self.mail_from = sender.reverse_path
        self.parameters = sender.parameters
        self.client = client
        self.remote_ip = remote_ip
        self.rcpt_tos: list[str] = []
        self.destinations: list[Destination] = []
        self.accepted: list[AcceptedRecipient] = []

    async def wait(self, seconds: float) -> Reply | None:
        """Wait until ``end_wait`` is called, and return its reply; None if it is not called within ``seconds``."""
        self._delay = asyncio.get_running_loop().create_future()
        try:
            return await asyncio.wait_for(self._delay, seconds)
        except TimeoutError:
            return None
        finally:
            self._delay = None

    def end_wait(self, reply: Reply) -> None:
        """End any wait with a reply, which is sent if the client is still reading."""
        if self._delay is not None and not self._delay.done():
            self._delay.set_result(reply)

    def accept(self, forward_path: str, destination: Destination, at_ms: int) -> Reply:
        """Add a recipient, and return the positive reply."""
        self.rcpt_tos.append(forward_path)
        self.destinations.append(destination)
        self.accepted.append(AcceptedRecipient(forward_path, at_ms))
        return replies.RECIPIENT_OK


class UnknownRecipients:
    """Limits the number of unknown recipients that a client may specify in all its sessions, using token buckets.

    A client without a token learns nothing about any recipient, so it cannot find out which recipients exist. A token
    is taken before a recipient is looked up, and put back if the recipient is known. Parallel sessions therefore gain
    no advantage. A ``client`` of None has no limit.
    """

    def __init__(self, timer: Timer = time) -> None:
        self._timer = timer
        self._buckets: TokenBuckets | None = None

    def limit(self, per_minute: int, burst: int) -> None:
        """Set the rate; 0 means no limit. If the rate has not changed, clients keep their tokens."""
        self._buckets = changed_buckets(self._buckets, TokenBuckets, per_minute, burst)

    def may_name(self, client: str | None) -> bool:
        """Return whether a client has a token left."""
        return client is None or self._buckets is None or self._buckets.has_token(client, self._timer.monotonic())

    def take(self, client: str | None) -> bool:
        """Take a token for a recipient that may be unknown; return False if no token is left."""
        if client is None or self._buckets is None:
            return True
        return self._buckets.take(client, self._timer.monotonic()).allowed

    def put_back(self, client: str | None) -> None:
        """Put the token back, because the recipient is known or the lookup failed."""
        if client is not None and self._buckets is not None:
            self._buckets.put_back(client)


class Handler:
    """Handles the conversation's requests. Exceptions are raised only by its coroutines, and only for internal errors.

    ``clock`` returns Unix milliseconds. ``count_mail`` is called with the reply to each message, the message size in
    bytes, and the delivery time in seconds.
    """

    def __init__(
        self,
        service: InboxService,
        unknown: UnknownRecipients,
        count_mail: Callable[[Reply, int, float], None],
        clock: Callable[[], int],
    ) -> None:
        self._deliverer = service.deliverer
        self._faults, self._blocks = service.faults, service.blocks
        self._unknown = unknown
        self._count_mail = count_mail
        self.clock = clock

    def reply_to_sender(self, envelope: SmtpEnvelope) -> Reply:
        """Return the reply to MAIL without waiting: refuse it if no message from this sender can be stored now."""
        try:
            # The client is checked again: it may have been blocked since it connected.
            blocks = self._blocks
            if blocks.has_any and (
                blocks.has_sender(envelope.mail_from or "") or blocks.has_client(envelope.remote_ip)
            ):
                return replies.BLOCKED_SENDER
            return replies.SENDER_OK if self._deliverer.has_room() else replies.SYSTEM_FULL
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)

    def reply_to_recipient_now(self, envelope: SmtpEnvelope, recipient: Recipient) -> Reply | None:
        """Accept a recipient that can be found without waiting; if this returns None, call ``reply_to_recipient``."""
        if not self._unknown.may_name(envelope.client):
            return replies.UNKNOWN_TOO_OFTEN
        try:
            inbox_id = self._deliverer.recipient_now(recipient.mailbox)
        except Exception as error:  # noqa: BLE001 - logged there
            return our_fault(error)
        if inbox_id is None or (self._faults.ordered and self._faults.has([inbox_id], "rcpt")):
            return None
        return envelope.accept(recipient.forward_path, inbox_id, self.clock())

    async def reply_to_recipient(self, envelope: SmtpEnvelope, recipient: Recipient) -> Reply:
        """Accept a recipient if it is the operator or a live inbox on this server."""
        mailbox = recipient.mailbox
        if mailbox.domain and mailbox.domain not in self._deliverer.mail_domains:
            return replies.NOT_OURS
        destination = await self._find(mailbox, envelope)
        if isinstance(destination, Reply):
            return destination
        refusal = await self._apply_fault([destination], "rcpt", envelope)
        return refusal or envelope.accept(recipient.forward_path, destination, self.clock())

    async def _find(self, mailbox: Mailbox, envelope: SmtpEnvelope) -> Destination | Reply:
        """Return the destination for a mailbox, or the reply that refuses it; an unknown mailbox costs a token."""
        client = envelope.client
        if not self._unknown.take(client):
            return replies.UNKNOWN_TOO_OFTEN
        found: Destination | Reply
        try:
            with on_behalf_of(client_name(envelope.remote_ip)):  # clients take turns to use the database
                found = await self._deliverer.recipient(mailbox, client)
        except RequestError as error:
            found = _refusal(error)
        except Exception as error:  # noqa: BLE001 - logged there
            found = our_fault(error)
        if found is not replies.UNKNOWN_RECIPIENT:
            self._unknown.put_back(client)
        return found

    def may_refuse_data(self, envelope: SmtpEnvelope) -> bool:
        """Return whether DATA may be refused; if so, ``reply_to_data`` must be awaited."""
        return bool(self._faults.ordered) and self._faults.has(envelope.destinations, "data")

    async def reply_to_data(self, envelope: SmtpEnvelope, accept: Callable[[], Reply]) -> Reply:
        """Return the result of ``accept``, unless a configured fault requires a refusal."""
        return await self._apply_fault(envelope.destinations, "data", envelope) or accept()

    async def _apply_fault(
        self, destinations: Sequence[Destination], step: Step, envelope: SmtpEnvelope
    ) -> Reply | None:
        """Wait for a configured fault's delay; return its reply, or None if delivery continues."""
        fault = self._faults.take(destinations, step)
        if fault is None:
            return None
        ended = await envelope.wait(fault.delay_seconds) if fault.delay_seconds else None
        if ended is not None or fault.reply is None:
            return ended
        return replies.ordered(fault.reply)

    async def reply_to_message(self, session: Session, envelope: SmtpEnvelope) -> Reply:
        """Store the message; a 250 means that it is on disk."""
        if self._faults.ordered and (refusal := await self._apply_fault(envelope.destinations, "end", envelope)):
            self._count_mail(refusal, 0, 0.0)
            return refusal
        content, begun = envelope.content or b"", time.monotonic()
        try:
            handed_over = _handed_over(session, envelope)
            stored = await self._deliverer.deliver(handed_over, envelope.destinations, content, envelope.client)
            reply = replace(replies.STORED, encoded=replies.STORED.encoded % stored.encode())
        except RequestError as error:
            reply = _refusal(error)
        except Exception as error:  # noqa: BLE001 - logged there
            reply = our_fault(error)
        seconds = time.monotonic() - begun
        self._count_mail(reply, len(content), seconds)
        if reply.is_positive and log.isEnabledFor(logging.DEBUG):
            log.debug("message accepted: %s, %d bytes, %.1f ms", reply, len(content), seconds * 1000)
        return reply


def _handed_over(session: Session, envelope: SmtpEnvelope) -> Envelope:
    """Return the transaction as an ``Envelope`` for storage."""
    tls = session.ssl or {}
    return Envelope(
        sender=envelope.mail_from or "",
        recipients=tuple(envelope.rcpt_tos),
        helo=session.host_name or "",
        remote_ip=envelope.remote_ip,
        tls=session.ssl is not None,
        session=SmtpSession(
            greeting=envelope.greeting,
            tls_version=tls.get("version", ""),
            tls_cipher=tls.get("cipher", ""),
            auth=envelope.auth,
            parameters=envelope.parameters,
            data_at_ms=envelope.data_at_ms,
            recipients=tuple(envelope.accepted),
        ),
    )


def _refusal(error: RequestError) -> Reply:
    reply = replies.reply_to(error)
    logged = isinstance(error, StorageUnavailable)
    return our_fault(error) if reply is replies.OUR_FAULT and not logged else reply


def our_fault(error: BaseException) -> Reply:
    """Log an internal error and return a reply that reveals nothing about it to the client."""
    fault_id = secrets.token_hex(4)
    extra = {"event": "smtp_fault", "code": replies.OUR_FAULT.status, "id": fault_id}
    log.error("SMTP request failed, id %s", fault_id, exc_info=error, extra=extra)
    return replies.OUR_FAULT
