"""A mail and its attachments, as the client for code with ``await`` has them."""

from collections.abc import Awaitable

from tmpmaild.client import goals
from tmpmaild.client.aiodriver import Driver
from tmpmaild.client.goals import Pattern
from tmpmaild.client.remote import RemoteInbox
from tmpmaild.client.views import AsyncPage, AttachmentView, MailView, unsubscribe_link
from tmpmaild.client.wire import AttachmentItem, Details, Message


class AsyncMail(MailView):
    """A mail in an inbox. What asks the service raises ``MessageNotFound`` when the mail was deleted."""

    def __init__(self, remote: RemoteInbox, message: Message, driver: Driver) -> None:
        super().__init__(remote, message)
        self._driver = driver

    @property
    def html(self) -> Awaitable[str | None]:
        """The HTML part as it was received, or None; ``await mail.html`` fetches it the first time."""
        return self._html()

    @property
    def attachments(self) -> tuple["AsyncAttachment", ...]:
        """The attachments, in order."""
        items = self._message.attachments
        return tuple(AsyncAttachment(self._remote, self.id, item, self._driver) for item in items)

    @property
    def unsubscribe_link(self) -> Awaitable[str | None]:
        """The link of List-Unsubscribe, https before http, or None; ``await mail.unsubscribe_link`` fetches it."""
        return self._unsubscribe_link()

    async def get_code(self, pattern: Pattern | None = None) -> str:
        """Return the best code, or what a regular expression finds first: in the subject, else in the whole text.

        Of an expression with a group it is what the first group matches; in a string ``^`` and ``$`` match at each
        line. Raises ``NotInMail``, which shows the mail; ``re.error``.
        """
        if pattern is not None and self.truncated:
            await self.details()
        return self._taken(goals.code(pattern))

    async def get_link(self, *, text: Pattern | None = None, url: Pattern | None = None) -> str:
        """Return the URL of the link to follow, or of the best one whose text and URL contain this.

        The link to follow is the best one, if its confidence is at least 0.3: an unlikely link is never returned.
        ``text`` is compared in any case; both may be compiled regular expressions. Raises ``NotInMail``.
        """
        return self._taken(goals.link(text, url))

    async def get_attachment(self, name: str) -> "AsyncAttachment":
        """Return the first attachment of this name, in any case: ``invoice-*.pdf``. Raises ``NotInMail``."""
        return AsyncAttachment(self._remote, self.id, self._taken(goals.attachment(name)), self._driver)

    async def open(self, page: AsyncPage, *, remote_images: bool = False) -> None:
        """Show the mail in a page of a browser (Playwright's): sanitised HTML without scripts, or the text.

        Images from elsewhere are loaded only with ``remote_images``. A link of the mail opens a page of its own:
        ``page.expect_popup()``.
        """
        await page.goto(await self.view_url(remote_images=remote_images))

    async def view_url(self, *, remote_images: bool = False) -> str:
        """Return a URL that shows the mail in any browser; it works for a minute, without a token."""
        return await self._driver.run(self._remote.view_url(self.id, remote_images=remote_images))

    async def details(self) -> Details:
        """Return the headers, the HTML, the whole text. Fetched the first time."""
        if self._details is None:
            self._details = await self._driver.run(self._remote.details(self.id))
        return self._details

    async def raw(self) -> bytes:
        """Return the source, octet by octet, below the service's ``Return-Path`` and ``Received``."""
        return await self._driver.run(self._remote.raw(self.id))

    async def delete(self) -> None:
        """Delete it from its inbox."""
        await self._driver.run(self._remote.delete_message(self.id))

    async def _html(self) -> str | None:
        details = await self.details()
        return details.html

    async def _unsubscribe_link(self) -> str | None:
        return unsubscribe_link(await self.details())


class AsyncAttachment(AttachmentView):
    """An attachment of a mail."""

    def __init__(self, remote: RemoteInbox, message_id: str, item: AttachmentItem, driver: Driver) -> None:
        super().__init__(remote, message_id, item)
        self._driver = driver

    async def content(self) -> bytes:
        """Return the content, decoded."""
        return await self._driver.run(self._remote.attachment(self._message_id, self._item.index))
