"""The tools that let an agent use the inboxes that it has created. Error texts contain no message content."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from typing import Annotated, ParamSpec, TypeVar

import anyio
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from tmpmaild import client as api
from tmpmaild.mcp_server import results

P = ParamSpec("P")
T = TypeVar("T")

MAX_INBOXES = 100
_CREATING_SECONDS = 5
_DELETING_SECONDS = 1.5  # clients kill a server that has not exited 2 s after its input was closed
_NAMED = 10

_Address = Annotated[str, Field(max_length=320, description="An address that create_inbox returned.")]
_Id = Annotated[str, Field(pattern=r"^msg_[0-9a-z]{26}$")]
_MailId = Annotated[_Id, Field(description="The id of a message, such as msg_….")]
_After = Annotated[_Id | None, Field(description="Only messages newer than the message with this id.")]
_Part = Annotated[
    str | None, Field(max_length=200, description="Only messages whose subject contains this text; case is ignored.")
]
_Sender = Annotated[
    str | None,
    Field(max_length=200, description="Only messages whose sender address or name contains this text, ignoring case."),
]
_LocalPart = Annotated[str | None, Field(max_length=64, description="The part before the @; random by default.")]
_Domain = Annotated[
    str | None, Field(max_length=255, description="One of the service's domains; the first by default.")
]
_Lifetime = Annotated[int | None, Field(ge=1, description="The lifetime in seconds; the service's default if omitted.")]
_Seconds = Annotated[float, Field(ge=0, le=120, description="How long to wait for the message.")]


def with_tool_errors(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Wrap a tool; raise ``ToolError`` for errors that an agent can correct or report."""

    @wraps(tool)
    async def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await tool(*args, **kwargs)
        except api.WaitTimeout as error:
            count = len(error.arrived)
            others = f"other messages that arrived: {count}; see list_mails" if count else "no other message arrived"
            raise ToolError(f"no matching message arrived in time; {others}") from error
        except api.ServiceUnreachable as error:
            raise ToolError(f"{error} Its URL is set by this server's option --url or $TMPMAILD_URL") from error
        except (api.TmpmaildError, TimeoutError, ValueError) as error:
            raise ToolError(str(error)) from error

    return wrapped


class Tools:
    """The tools. Each tool is a method, whose docstring is the description that the agent reads."""

    def __init__(self, inboxes: "OwnInboxes") -> None:
        self._inboxes = inboxes

    async def create_inbox(
        self, local_part: _LocalPart = None, domain: _Domain = None, expires_in_seconds: _Lifetime = None
    ) -> results.Created:
        """Create an e-mail inbox with a fresh address, and return the address.

        Give the address to the application that will send mail to it. No other client can read the inbox. It is deleted
        when this server stops, or earlier if it expires.
        """
        inbox = await self._inboxes.create(local_part, domain=domain, expires_in_seconds=expires_in_seconds)
        return results.Created(address=inbox.address, expires_at=inbox.expires_at.isoformat(timespec="seconds"))

    async def wait_for_mail(
        self,
        address: _Address,
        subject: _Part = None,
        sender: _Sender = None,
        after: _After = None,
        timeout_seconds: _Seconds = 30,
    ) -> results.WholeMail:
        """Wait for a message in an inbox, and return the oldest match, including messages that have already arrived.

        To get the next message, pass the id of the previous message as ``after``.
        """
        inbox = self._inboxes.find(address)
        mail = await inbox.wait_for(subject=subject, sender=sender, after=after, timeout=timeout_seconds)
        return await self._whole(address, mail)

    async def read_code(
        self,
        address: _Address,
        subject: _Part = None,
        sender: _Sender = None,
        after: _After = None,
        timeout_seconds: _Seconds = 30,
    ) -> results.FoundCode:
        """Wait for a message with a verification code, and return the best code from the oldest matching message."""
        inbox = self._inboxes.find(address)
        mail = await inbox.wait_for(subject=subject, sender=sender, after=after, has="code", timeout=timeout_seconds)
        return results.found_code(mail)

    async def read_link(
        self,
        address: _Address,
        subject: _Part = None,
        sender: _Sender = None,
        after: _After = None,
        timeout_seconds: _Seconds = 30,
    ) -> results.FoundLink:
        """Wait for a message with a confirmation or login link, and return the best link from the oldest match.

        Check that the link leads to the host that the user expects before opening it.
        """
        inbox = self._inboxes.find(address)
        until = anyio.current_time() + timeout_seconds
        while True:
            left = max(until - anyio.current_time(), 0)
            mail = await inbox.wait_for(subject=subject, sender=sender, after=after, has="link", timeout=left)
            if mail.link is not None:
                break
            after = mail.id  # the message contains only other links, such as an unsubscribe link
        found = results.found_link(mail)
        if found is None:
            raise ToolError(f"the links in the message {mail.id} are too long")
        return found

    async def list_mails(self, address: _Address, after: _After = None) -> results.Listing:
        """List the messages in an inbox, newest first, without their text; at most 50."""
        inbox = self._inboxes.find(address)
        return results.listing(await inbox.messages(after=after, limit=results.MAX_MAILS + 1))

    async def read_mail(self, address: _Address, mail_id: _MailId) -> results.WholeMail:
        """Return one message of an inbox: its visible text, codes, links, and the names of its attachments."""
        return results.whole(await self._inboxes.find(address).message(mail_id))

    async def delete_mail(self, address: _Address, mail_id: _MailId) -> results.Deleted:
        """Delete one message of an inbox."""
        mail = await self._inboxes.find(address).message(mail_id)
        await mail.delete()
        return results.Deleted(deleted=mail.id)

    async def delete_inbox(self, address: _Address) -> results.Deleted:
        """Delete an inbox and all its messages; its address no longer accepts mail."""
        inbox = self._inboxes.find(address)
        await self._inboxes.delete(inbox)
        return results.Deleted(deleted=inbox.address)

    async def _whole(self, address: str, mail: api.AsyncMail) -> results.WholeMail:
        if mail.truncated:  # message lists truncate long bodies
            mail = await self._inboxes.find(address).message(mail.id)
        return results.whole(mail)


class OwnInboxes:
    """Creates private inboxes and finds them by address; never reveals their tokens."""

    def __init__(self, client: api.AsyncClient) -> None:
        self._client = client
        self._inboxes: dict[str, api.AsyncInbox] = {}
        self._being_created = 0

    async def create(
        self, local_part: str | None = None, *, domain: str | None = None, expires_in_seconds: int | None = None
    ) -> api.AsyncInbox:
        """Create an inbox as ``AsyncClient.create`` does. Raises ``ToolError`` if too many are open."""
        self._forget_expired()
        if len(self._inboxes) + self._being_created >= MAX_INBOXES:
            raise ToolError(f"{MAX_INBOXES} inboxes are open; delete an inbox with delete_inbox first")
        self._being_created += 1
        try:
            # If the agent cancels now, the service may still have created the inbox, which must be deleted at the end.
            with anyio.move_on_after(_CREATING_SECONDS, shield=True):
                inbox = await self._client.create(
                    local_part, domain=domain, private=True, expires_in_seconds=expires_in_seconds
                )
                self._inboxes[inbox.address] = inbox
                return inbox
        finally:
            self._being_created -= 1
        raise TimeoutError(f"{self._client.url}: no inbox was created within {_CREATING_SECONDS} s")

    def find(self, address: str) -> api.AsyncInbox:
        """Return the inbox with this address; case is ignored. Raises ``ToolError``."""
        found = self._inboxes.get(address.strip().lower())
        if found is None:
            own = ", ".join(list(self._inboxes)[-_NAMED:]) or "none yet"
            raise ToolError(f"only inboxes created with create_inbox can be used; the newest: {own}")
        return found

    async def delete(self, inbox: api.AsyncInbox) -> None:
        """Delete an inbox, and forget it even if it has already expired or been deleted."""
        with suppress(api.AddressExpired, api.AddressNotFound):
            await inbox.delete()
        self._inboxes.pop(inbox.address, None)

    async def delete_all(self) -> None:
        """Delete all inboxes, if the service responds within a short time; the rest are deleted when they expire."""
        with anyio.move_on_after(_DELETING_SECONDS, shield=True):
            async with anyio.create_task_group() as group:
                for inbox in list(self._inboxes.values()):
                    group.start_soon(self._try_to_delete, inbox)

    async def _try_to_delete(self, inbox: api.AsyncInbox) -> None:
        with suppress(api.TmpmaildError):
            await self.delete(inbox)

    def _forget_expired(self) -> None:
        now = datetime.now(UTC)
        self._inboxes = {address: one for address, one in self._inboxes.items() if one.expires_at > now}
