"""The tools with which an agent uses inboxes that it has created. Error texts contain no content of messages."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from typing import Annotated, ParamSpec, TypeVar

import anyio
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from tmpmaild import client as api
from tmpmaild.mcp_server import answers

P = ParamSpec("P")
T = TypeVar("T")

MAX_INBOXES = 100
_CREATING_SECONDS = 5
_DELETING_SECONDS = 1.5  # a client kills a server that has not exited 2 s after its input closed
_NAMED = 10

_Address = Annotated[str, Field(max_length=320, description="An address that create_inbox returned.")]
_Id = Annotated[str, Field(pattern=r"^msg_[0-9a-z]{26}$")]
_MailId = Annotated[_Id, Field(description="The id of a mail, as msg_….")]
_After = Annotated[_Id | None, Field(description="Only a mail that came after the one with this id.")]
_Part = Annotated[
    str | None, Field(max_length=200, description="Only a mail whose subject contains this, in any case.")
]
_Sender = Annotated[
    str | None, Field(max_length=200, description="Only a mail whose sender's address or name has this.")
]
_LocalPart = Annotated[str | None, Field(max_length=64, description="The part before the @; else a random one.")]
_Domain = Annotated[str | None, Field(max_length=255, description="One of the service's domains; else its first.")]
_Lifetime = Annotated[int | None, Field(ge=1, description="How long it lives; else as long as the service has set.")]
_Seconds = Annotated[float, Field(ge=0, le=120, description="How long to wait for the mail.")]


def with_tool_errors(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Wrap a tool to convert errors that an agent can correct or report to ``ToolError``."""

    @wraps(tool)
    async def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await tool(*args, **kwargs)
        except api.WaitTimeout as error:
            count = len(error.arrived)
            others = f"{count} other mail(s) came; list_mails shows them" if count else "no other mail came"
            raise ToolError(f"no such mail in time; {others}") from error
        except api.ServiceUnreachable as error:
            raise ToolError(f"{error} The option --url or $TMPMAILD_URL of this server says where") from error
        except (api.TmpmaildError, TimeoutError, ValueError) as error:
            raise ToolError(str(error)) from error

    return wrapped


class Tools:
    """The tools, one method each; the docstring of a method is the description that the agent reads."""

    def __init__(self, inboxes: "OwnInboxes") -> None:
        self._inboxes = inboxes

    async def create_inbox(
        self, local_part: _LocalPart = None, domain: _Domain = None, expires_in_seconds: _Lifetime = None
    ) -> answers.Created:
        """Create an e-mail inbox with a fresh address, and return the address.

        Give the address to the application that is to send mail. Nobody else can read the inbox. It is deleted when
        this server ends, at the latest when it expires.
        """
        inbox = await self._inboxes.create(local_part, domain=domain, expires_in_seconds=expires_in_seconds)
        return answers.Created(address=inbox.address, expires_at=inbox.expires_at.isoformat(timespec="seconds"))

    async def wait_for_mail(
        self,
        address: _Address,
        subject: _Part = None,
        sender: _Sender = None,
        after: _After = None,
        timeout_seconds: _Seconds = 30,
    ) -> answers.WholeMail:
        """Wait for a mail to an inbox, and return it: the oldest that matches, whether it is there already or comes.

        For the next mail give the id of the last one as ``after``.
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
    ) -> answers.FoundCode:
        """Wait for a mail with a verification code, and return the code: the oldest such mail, its best code."""
        inbox = self._inboxes.find(address)
        mail = await inbox.wait_for(subject=subject, sender=sender, after=after, has="code", timeout=timeout_seconds)
        return answers.found_code(mail)

    async def read_link(
        self,
        address: _Address,
        subject: _Part = None,
        sender: _Sender = None,
        after: _After = None,
        timeout_seconds: _Seconds = 30,
    ) -> answers.FoundLink:
        """Wait for a mail with a link to confirm or log in with, and return that: the oldest such mail, its best.

        Check that the link leads to the host that the user expects before opening it.
        """
        inbox = self._inboxes.find(address)
        until = anyio.current_time() + timeout_seconds
        while True:
            left = max(until - anyio.current_time(), 0)
            mail = await inbox.wait_for(subject=subject, sender=sender, after=after, has="link", timeout=left)
            if mail.link is not None:
                break
            after = mail.id  # it only contains other links, such as an unsubscribe link
        found = answers.found_link(mail)
        if found is None:
            raise ToolError(f"the links of the mail {mail.id} are too long")
        return found

    async def list_mails(self, address: _Address, after: _After = None) -> answers.Listing:
        """List the mails of an inbox, newest first, without their texts; at most 50."""
        inbox = self._inboxes.find(address)
        return answers.listing(await inbox.messages(after=after, limit=answers.MAX_MAILS + 1))

    async def read_mail(self, address: _Address, mail_id: _MailId) -> answers.WholeMail:
        """Return one mail of an inbox: its visible text, codes, links, and the names of its attachments."""
        return answers.whole(await self._inboxes.find(address).message(mail_id))

    async def delete_mail(self, address: _Address, mail_id: _MailId) -> answers.Deleted:
        """Delete one mail of an inbox."""
        mail = await self._inboxes.find(address).message(mail_id)
        await mail.delete()
        return answers.Deleted(deleted=mail.id)

    async def delete_inbox(self, address: _Address) -> answers.Deleted:
        """Delete an inbox and all its mail; its address takes no more mail."""
        inbox = self._inboxes.find(address)
        await self._inboxes.delete(inbox)
        return answers.Deleted(deleted=inbox.address)

    async def _whole(self, address: str, mail: api.AsyncMail) -> answers.WholeMail:
        if mail.truncated:  # as in lists
            mail = await self._inboxes.find(address).message(mail.id)
        return answers.whole(mail)


class OwnInboxes:
    """Creates private inboxes and finds them by address; never reveals their tokens."""

    def __init__(self, client: api.AsyncClient) -> None:
        self._client = client
        self._inboxes: dict[str, api.AsyncInbox] = {}
        self._being_created = 0

    async def create(
        self, local_part: str | None = None, *, domain: str | None = None, expires_in_seconds: int | None = None
    ) -> api.AsyncInbox:
        """Create an inbox, as ``AsyncClient.create`` does. Raises ``ToolError`` if too many are open."""
        self._forget_expired()
        if len(self._inboxes) + self._being_created >= MAX_INBOXES:
            raise ToolError(f"{MAX_INBOXES} inboxes are open; delete one with delete_inbox first")
        self._being_created += 1
        try:
            # Even if the agent cancels now, the service may have created the inbox: it has to be deleted at the end.
            with anyio.move_on_after(_CREATING_SECONDS, shield=True):
                inbox = await self._client.create(
                    local_part, domain=domain, private=True, expires_in_seconds=expires_in_seconds
                )
                self._inboxes[inbox.address] = inbox
                return inbox
        finally:
            self._being_created -= 1
        raise TimeoutError(f"{self._client.url}: no inbox within {_CREATING_SECONDS} s")

    def find(self, address: str) -> api.AsyncInbox:
        """Return the inbox with this address, in any case. Raises ``ToolError``."""
        found = self._inboxes.get(address.strip().lower())
        if found is None:
            own = ", ".join(list(self._inboxes)[-_NAMED:]) or "none yet"
            raise ToolError(f"only inboxes that create_inbox has made can be used; the newest: {own}")
        return found

    async def delete(self, inbox: api.AsyncInbox) -> None:
        """Delete an inbox, and forget it even if it has already expired or been deleted."""
        with suppress(api.AddressExpired, api.AddressNotFound):
            await inbox.delete()
        self._inboxes.pop(inbox.address, None)

    async def delete_all(self) -> None:
        """Delete all inboxes, as far as the service responds in a short time; the rest are deleted when they expire."""
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
