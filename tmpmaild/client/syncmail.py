# Made from aiomail.py by tools/sync_client.py: change that one, then run `make client`.
"""A mail and its attachments, as the client for code without ``await`` has them."""

from tmpmaild.client import goals
from tmpmaild.client.goals import Pattern
from tmpmaild.client.remote import RemoteInbox
from tmpmaild.client.syncdriver import Driver
from tmpmaild.client.views import AttachmentView, MailView, Page, unsubscribe_link
from tmpmaild.client.wire import AttachmentItem, Details, Message


class Mail(MailView):
    """A mail in an inbox. What asks the service raises ``MessageNotFound`` when the mail was deleted."""

    def __init__(self, remote: RemoteInbox, message: Message, driver: Driver) -> None:
        super().__init__(remote, message)
        self._driver = driver

    @property
    def html(self) -> str | None:
        """The HTML part as it was received, or None; ``mail.html`` fetches it the first time."""
        return self._html()

    @property
    def attachments(self) -> tuple["Attachment", ...]:
        """The attachments, in order."""
        items = self._message.attachments
        return tuple(Attachment(self._remote, self.id, item, self._driver) for item in items)

    @property
    def unsubscribe_link(self) -> str | None:
        """The link of List-Unsubscribe, https before http, or None; ``mail.unsubscribe_link`` fetches it."""
        return self._unsubscribe_link()

    def get_code(self, pattern: Pattern | None = None) -> str:
        """Return the best code, or what a regular expression finds first: in the subject, else in the whole text.

        Of an expression with a group it is what the first group matches; in a string ``^`` and ``$`` match at each
        line. Raises ``NotInMail``, which shows the mail; ``re.error``.
        """
        if pattern is not None and self.truncated:
            self.details()
        return self._taken(goals.code(pattern))

    def get_link(self, *, text: Pattern | None = None, url: Pattern | None = None) -> str:
        """Return the URL of the link to follow, or of the best one whose text and URL contain this.

        The link to follow is the best one, if its confidence is at least 0.3: an unlikely link is never returned.
        ``text`` is compared in any case; both may be compiled regular expressions. Raises ``NotInMail``.
        """
        return self._taken(goals.link(text, url))

    def get_attachment(self, name: str) -> "Attachment":
        """Return the first attachment of this name, in any case: ``invoice-*.pdf``. Raises ``NotInMail``."""
        return Attachment(self._remote, self.id, self._taken(goals.attachment(name)), self._driver)

    def open(self, page: Page, *, remote_images: bool = False) -> None:
        """Show the mail in a page of a browser (Playwright's): sanitised HTML without scripts, or the text.

        Images from elsewhere are loaded only with ``remote_images``. A link of the mail opens a page of its own:
        ``page.expect_popup()``.
        """
        page.goto(self.view_url(remote_images=remote_images))

    def view_url(self, *, remote_images: bool = False) -> str:
        """Return a URL that shows the mail in any browser; it works for a minute, without a token."""
        return self._driver.run(self._remote.view_url(self.id, remote_images=remote_images))

    def details(self) -> Details:
        """Return the headers, the HTML, the whole text. Fetched the first time."""
        if self._details is None:
            self._details = self._driver.run(self._remote.details(self.id))
        return self._details

    def raw(self) -> bytes:
        """Return the source, octet by octet, below the service's ``Return-Path`` and ``Received``."""
        return self._driver.run(self._remote.raw(self.id))

    def delete(self) -> None:
        """Delete it from its inbox."""
        self._driver.run(self._remote.delete_message(self.id))

    def _html(self) -> str | None:
        details = self.details()
        return details.html

    def _unsubscribe_link(self) -> str | None:
        return unsubscribe_link(self.details())


class Attachment(AttachmentView):
    """An attachment of a mail."""

    def __init__(self, remote: RemoteInbox, message_id: str, item: AttachmentItem, driver: Driver) -> None:
        super().__init__(remote, message_id, item)
        self._driver = driver

    def content(self) -> bytes:
        """Return the content, decoded."""
        return self._driver.run(self._remote.attachment(self._message_id, self._item.index))
