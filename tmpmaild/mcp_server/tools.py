"""The tools: what an agent may do with inboxes. Texts of errors have nothing of a mail in them."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, ParamSpec, TypeVar

import anyio
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from tmpmaild.client import AsyncMail, ServiceUnreachable, TmpmaildError, WaitTimeout
from tmpmaild.mcp_server import answers
from tmpmaild.mcp_server.inboxes import NotOurs, OwnInboxes, TooManyInboxes

P = ParamSpec("P")
T = TypeVar("T")

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


def _told(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Raise what an agent can correct or report as ``ToolError``."""

    @wraps(tool)
    async def told(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await tool(*args, **kwargs)
        except WaitTimeout as error:
            count = len(error.arrived)
            others = f"{count} other mail(s) came; list_mails shows them" if count else "no other mail came"
            raise ToolError(f"no such mail in time; {others}") from error
        except ServiceUnreachable as error:
            raise ToolError(f"{error} The option --url or $TMPMAILD_URL of this server says where") from error
        except (TmpmaildError, NotOurs, TooManyInboxes, TimeoutError, ValueError) as error:
            raise ToolError(str(error)) from error

    return told


class Tools:
    """One method a tool; its docstring is what the agent reads of it."""

    def __init__(self, inboxes: OwnInboxes) -> None:
        self._inboxes = inboxes

    @_told
    async def create_inbox(
        self, local_part: _LocalPart = None, domain: _Domain = None, expires_in_seconds: _Lifetime = None
    ) -> answers.Created:
        """Create an e-mail inbox with a fresh address, and return the address.

        Give the address to the application that is to send mail. Nobody else can read the inbox. It is deleted when
        this server ends, at the latest when it expires.
        """
        inbox = await self._inboxes.create(local_part, domain=domain, expires_in_seconds=expires_in_seconds)
        return answers.Created(address=inbox.address, expires_at=inbox.expires_at.isoformat(timespec="seconds"))

    @_told
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

    @_told
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

    @_told
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
            after = mail.id  # its links are others, such as one to unsubscribe
        found = answers.found_link(mail)
        if found is None:
            raise ToolError(f"the links of the mail {mail.id} are too long")
        return found

    @_told
    async def list_mails(self, address: _Address, after: _After = None) -> answers.Listing:
        """List the mails of an inbox, newest first, without their texts; at most 50."""
        inbox = self._inboxes.find(address)
        return answers.listing(await inbox.messages(after=after, limit=answers.MAX_MAILS + 1))

    @_told
    async def read_mail(self, address: _Address, mail_id: _MailId) -> answers.WholeMail:
        """Return one mail of an inbox: its visible text, codes, links, and the names of its attachments."""
        return answers.whole(await self._inboxes.find(address).message(mail_id))

    @_told
    async def delete_mail(self, address: _Address, mail_id: _MailId) -> answers.Deleted:
        """Delete one mail of an inbox."""
        mail = await self._inboxes.find(address).message(mail_id)
        await mail.delete()
        return answers.Deleted(deleted=mail.id)

    @_told
    async def delete_inbox(self, address: _Address) -> answers.Deleted:
        """Delete an inbox and all its mail; its address takes no more mail."""
        inbox = self._inboxes.find(address)
        await self._inboxes.delete(inbox)
        return answers.Deleted(deleted=inbox.address)

    async def _whole(self, address: str, mail: AsyncMail) -> answers.WholeMail:
        if mail.truncated:  # as lists do
            mail = await self._inboxes.find(address).message(mail.id)
        return answers.whole(mail)
