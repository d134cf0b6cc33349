"""Endpoints for messages and views: each reads a request, calls the service and returns the response."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar
from weakref import ReferenceType

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from tmpmaild.errors import AddressExpired, AddressNotFound, MessageNotFound
from tmpmaild.http.downloads import FileResponse, attachment_disposition, attachment_type, file_headers
from tmpmaild.http.inputs import AllMailDeleteQuery, AllMailQuery, DeleteQuery, PageQuery, ViewRequest, page
from tmpmaild.http.openapi import ADDRESS, MESSAGE, OCTETS, TEXT, Operation, Returns
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.requests import client, required_token, token, until_disconnect
from tmpmaild.http.responses import (
    IN_LOOP_BYTES,
    CutOff,
    JsonResponse,
    LargeResponse,
    ResponseSlots,
    StreamedFile,
    StreamSlots,
    encode_in_turn,
)
from tmpmaild.http.schemas import DeletedMessages, FullMessageItem, MessageList, Serializer, ViewItem
from tmpmaild.http.validation import parse_query, read_json
from tmpmaild.inboxes.access import ALL_MAIL
from tmpmaild.inboxes.caches import Invalidation, message_characters
from tmpmaild.inboxes.reading import ShownMessage
from tmpmaild.inboxes.service import InboxService
from tmpmaild.inboxes.viewing import Grant
from tmpmaild.mail import viewpage
from tmpmaild.model import Feature, Inbox, Listing, Message, Page
from tmpmaild.validation import ValidationErrors

Deletion = TypeVar("Deletion", bound=DeleteQuery)

_NEWEST = page(PageQuery())  # most clients request this page
_MAX_NAMED = 3  # the maximum number of messages and of refusals in the reason for an empty wait
_MAX_NAMED_CHARACTERS = 100
_NONE_REFUSED = ", and none was refused: does your application send to {}?"
_DROPPED_DOMAIN = "example.com"  # the parent of the default domain for new addresses
_DROPPED = (
    " Some applications drop mail to example.com: set domains (in pytest tmpmaild_domain) to a subdomain of your own "
    "domain, or use tmpmaild catch"
)
_NOT_KEPT = "; set smtp.keep_refusals to see what was refused"
# No scripts. Because the frame has the same origin, the inbox can measure and print it (see docs/security.md).
_POLICY = (
    "sandbox allow-same-origin allow-modals allow-popups allow-popups-to-escape-sandbox; default-src 'none'; "
    "img-src {images}; style-src 'unsafe-inline'; frame-ancestors {ancestors}"
)


class MessageEndpoints:
    """Endpoints for messages. Large responses share ``slots``; waits and streams share ``stream_slots``.

    ``smtp`` contains the addresses that accept mail; they are included in the reason why a wait found nothing.
    """

    def __init__(
        self,
        service: InboxService,
        serializer: Serializer,
        slots: ResponseSlots,
        stream_slots: StreamSlots,
        smtp: Sequence[str] = (),
    ) -> None:
        self._smtp = f"SMTP on {' or '.join(smtp)}" if smtp else "this server's SMTP port"
        self._service = service
        self._mail = service.mail
        self._serializer = serializer
        self._slots = slots
        self._stream_slots = stream_slots
        self._pages: dict[int, tuple[ReferenceType[Listing], Response]] = {}

    @Operation(
        f"GET {ADDRESS}/messages",
        "listMessages",
        Returns(200, "The messages.", MessageList, headers=("Link",)),
        query=PageQuery,
        problems=("too-many-streams", "busy"),
    )
    async def list(self, request: Request) -> ASGIApp:
        """List messages, or wait for a message.

        Bodies are complete up to 4 MiB per response, newest first; beyond that they are cut to 1 KiB. With `wait`, the
        response is sent as soon as a message matches; set `after` to wait for new messages. With `explain=true`, a wait
        that finds nothing returns a `reason`, which lists the messages that arrived instead and the refusals. With
        `has`, up to 200 messages are examined for codes and links per response. If the list is therefore short, `Link`
        leads to the next part.
        """
        address, key = request.path_params["address"], token(request)
        kind = AllMailQuery if address is ALL_MAIL else PageQuery
        wanted, wait_seconds, is_to_explain = self._parse_page(request.scope["query_string"], kind)
        listing = await self._wait(request, wanted, wait_seconds) if wait_seconds and request.method != "HEAD" else None
        if listing is None:
            listing = await self._mail.list(address, wanted, key)
        elif is_to_explain and not listing.messages:
            nothing = MessageList([], await self._reason(address, wanted, key))
            return self._page(listing, wanted, nothing)
        if listing.characters <= IN_LOOP_BYTES:
            return self._small_page(listing, wanted)

        async def again() -> Response:
            large, encoded = await self._mail.list_as(address, wanted, key, self._encoded_list)
            return self._page(large, wanted, encoded)

        return self._large(request, again, listing.inbox)

    @Operation(
        f"DELETE {ADDRESS}/messages",
        "deleteMessages",
        Returns(200, "The messages are deleted.", DeletedMessages),
        security="required",
        query=DeleteQuery,
    )
    async def delete_several(self, request: Request) -> Response:
        """Delete all or some messages.

        Deletes the messages with these `id`s, or all messages up to and including `up_to`; without parameters, deletes
        all. It counts as one request, regardless of the number of messages, and it can be repeated: missing messages
        are not counted. Unknown parameters are refused.
        """
        key = required_token(request)
        query = wanted_deletion(request, DeleteQuery)
        address = request.path_params["address"]
        deleted = await self._service.inboxes.delete_messages(address, key, query.id or None, up_to=query.up_to)
        return JsonResponse(DeletedMessages(deleted))

    @Operation(
        f"GET {ADDRESS}/messages.mbox",
        "exportMessages",
        Returns(200, "The file; its length is not known in advance.", media_types=("application/mbox",), schema=OCTETS),
        problems=("busy",),
    )
    async def mbox(self, request: Request) -> ASGIApp:
        """Save all messages as one file.

        An mbox file (RFC 4155; lines that begin with `From ` are quoted as in mboxrd), which mail programs can read.
        The messages are unchanged and sorted oldest first; each is preceded by this server's `Return-Path` and
        `Received` fields. Lines end in LF.
        """
        return await self.saved(request)

    async def saved(self, request: Request, only: AsyncGenerator[str, None] | None = None) -> ASGIApp:
        """Return an mbox file with all messages, or only with those whose ids ``only`` yields."""
        address, key = request.path_params["address"], token(request)
        inbox = await self._service.access.find(address, key)
        file_name = "messages.mbox" if address is ALL_MAIL else f"{inbox.address}.mbox"
        name = attachment_disposition(file_name, "inbox.mbox")
        parts = partial(self._mail.mbox_of, address, only) if only else partial(self._mail.mbox, address, key)
        file = StreamedFile(self._slots, client(request), file_headers("application/mbox", name), parts)
        return CutOff(file, self._service.follower.watch(inbox))

    @Operation(f"GET {MESSAGE}", "getMessage", Returns(200, "The message.", FullMessageItem), problems=("busy",))
    async def show(self, request: Request) -> ASGIApp:
        """Read one message.

        Includes its headers, its HTML as received, the SMTP envelope, and the errors that the parser tolerated.
        """
        address, message_id, key = _message_of(request)
        shown = await self._mail.message(address, message_id, key, up_to_bytes=IN_LOOP_BYTES)
        if shown.full.complete and message_characters(shown.full.message) <= IN_LOOP_BYTES:
            return JsonResponse(self._serializer.full_message(shown))

        async def again() -> Response:
            return JsonResponse(await self._mail.message_as(address, message_id, key, self._encoded_message))

        return self._large(request, again, shown.inbox, message_id)

    @Operation(f"DELETE {MESSAGE}", "deleteMessage", Returns(204, "The message is deleted."), security="required")
    async def delete(self, request: Request) -> Response:
        """Delete one message.

        It is deleted immediately, and its space becomes free for other messages.
        """
        address, message_id, _ = _message_of(request)
        await self._service.inboxes.delete_message(address, message_id, required_token(request))
        return Response(status_code=204)

    @Operation(
        f"GET {MESSAGE}/raw",
        "getSource",
        Returns(200, "The message.", media_types=("message/rfc822",), schema=OCTETS),
        problems=("busy",),
    )
    async def source(self, request: Request) -> ASGIApp:
        """Read a message as received.

        The message is preceded by this server's `Return-Path` and `Received` fields.
        """
        address, message_id, key = _message_of(request)
        name = f'attachment; filename="{message_id}.eml"'
        inbox, fields, raw = await self._mail.source(address, message_id, key, up_to_bytes=IN_LOOP_BYTES)
        if raw is not None:
            return FileResponse("message/rfc822", name, fields + raw)

        async def again() -> Response:
            _, fields, raw = await self._mail.source(address, message_id, key)
            assert raw is not None
            return FileResponse("message/rfc822", name, fields, raw)

        return self._large(request, again, inbox, message_id)

    @Operation(
        f"GET {MESSAGE}/attachments/{{index}}",
        "getAttachment",
        Returns(200, "Its content, decoded.", media_types=("application/octet-stream", "*/*"), schema=OCTETS),
        problems=("busy",),
    )
    async def attachment(self, request: Request) -> ASGIApp:
        """Fetch an attachment.

        It is always sent as a download, with the media type stated in the message; types that a browser would run
        become `application/octet-stream`.
        """
        address, message_id, key = _message_of(request)
        index = request.path_params["index"]
        inbox, found, source_bytes = await self._mail.find_attachment(address, message_id, index, key)

        async def make() -> Response:
            content = await self._mail.attachment_content(address, message_id, found, key)
            name = attachment_disposition(found.filename, f"attachment-{found.index}")
            return FileResponse(attachment_type(found.content_type, content), name, content)

        return await make() if source_bytes <= IN_LOOP_BYTES else self._large(request, make, inbox, message_id)

    def _parse_page(self, query_string: bytes, kind: type[PageQuery]) -> tuple[Page, int, bool]:
        """Return the requested page, the number of seconds to wait for it, and whether to explain an empty page."""
        if not query_string:
            return _NEWEST, 0, False
        errors = ValidationErrors()
        query = parse_query(query_string, kind, errors)
        errors.collect(self._mail.ensure_possible, query.has)
        errors.raise_if_any()
        return page(query), query.wait, query.explain

    async def _wait(self, request: Request, wanted: Page, seconds: float) -> Listing | None:
        """Wait for a page with a message; return None if it can no longer be shown or the client has disconnected.

        A client that has only closed its sending side (a half-closed connection) is treated in the same way, and
        receives its response without waiting.
        """

        async def wait() -> tuple[Listing, Invalidation]:
            address, key = request.path_params["address"], token(request)
            listing = await self._service.follower.wait(address, wanted, key, seconds)
            return listing, self._mail.last_invalidation

        with self._stream_slots.take(client(request)):
            found = await until_disconnect(request.receive, wait)
        if found is None:
            return None
        listing, since = found
        live = await self._mail.remaining(listing, since)  # other tasks may have run while the task group was closing
        return live if live.messages or not listing.messages else None

    async def _reason(self, address: str, wanted: Page, key: str | None) -> str:
        """Return the reason why a wait found nothing, with the messages that arrived instead and the refusals."""
        listing = await self._mail.list(address, Page(limit=_MAX_NAMED, after=wanted.after), key)
        refusals = self._service.refusals
        refused = [one for one in refusals.newest() if one.at_ms >= listing.inbox.created_at_ms]
        others, text, elsewhere = listing.messages, "messages that do not match: ", ""
        if not others and wanted.after:
            others = (await self._mail.list(address, Page(limit=_MAX_NAMED), key)).messages
            text = "no message arrived after that one" + ("; the newest up to it: " if others else "")
        elif not others:
            elsewhere = await self._elsewhere()
            text = f"no message arrived{elsewhere}"
        text += "; ".join([_named(message, wanted.has) for message in others])
        if refused:
            text += "; refused: " + "; ".join(
                [f"{one.command}: {one.reason}".removeprefix(": ") for one in refused[-_MAX_NAMED:]]
            )
        elif not (others or wanted.after or elsewhere):  # otherwise, the application does send here
            text += _NONE_REFUSED.format(self._smtp) if refusals.wanted else _NOT_KEPT
            text += _DROPPED if refusals.wanted and _is_dropped(listing.inbox.address) else ""
        return "".join([character if character.isprintable() else "\ufffd" for character in text])

    async def _elsewhere(self) -> str:
        """Return a note on the recipients of a catcher's newest messages, or "" if there are none."""
        catcher = self._service.catcher
        recipients = await catcher.newest_recipients(_MAX_NAMED) if catcher is not None else []
        named = ", ".join([one[:_MAX_NAMED_CHARACTERS] for one in recipients[:_MAX_NAMED]])
        return f"; the newest messages went to {named}" if named else ""

    async def _encoded_list(self, listing: Listing) -> bytes:
        return await encode_in_turn(self._service.scheduler, self._serializer.message_list, listing, listing.characters)

    async def _encoded_message(self, shown: ShownMessage) -> bytes:
        characters = message_characters(shown.full.message) + len(shown.full.html or "")
        return await encode_in_turn(self._service.scheduler, self._serializer.full_message, shown, characters)

    def _small_page(self, listing: Listing, wanted: Page) -> Response:
        """Return the response that contains a page of messages.

        The response is encoded only once while the page is cached.
        """
        cached, key = self._pages.get(id(listing)), id(listing)
        if cached is not None and cached[0]() is listing:
            return cached[1]
        response = self._page(listing, wanted, self._serializer.message_list(listing))
        self._pages[key] = ReferenceType(listing, lambda _: self._pages.pop(key, None)), response
        return response

    def _page(self, listing: Listing, wanted: Page, body: bytes | MessageList) -> Response:
        response = JsonResponse(body)
        if listing.has_more:
            response.headers["Link"] = self._serializer.next_page_link(listing, wanted)
        return response

    def _large(
        self, request: Request, make: Callable[[], Awaitable[Response]], inbox: Inbox, message_id: str = ""
    ) -> CutOff:
        """Return a large response, which is cut off when the inbox or message in it may no longer be shown."""
        return CutOff(
            LargeResponse(self._slots, client(request), make), self._service.follower.watch(inbox, message_id)
        )


def wanted_deletion(request: Request, kind: type[Deletion]) -> Deletion:
    """Return the deletion that a request specifies. Raises ``InvalidRequest``."""
    errors = ValidationErrors()
    # An unknown parameter is refused: otherwise, a misspelt parameter would delete all messages.
    query = parse_query(request.scope["query_string"], kind, errors, only_known=True)
    if query.id and query.up_to:
        errors.errors.append(("up_to", "expected only one of id and up_to"))
    if query.id and isinstance(query, AllMailDeleteQuery) and query.to:
        errors.errors.append(("to", "expected only one of id and to"))
    errors.raise_if_any()
    return query


def _message_of(request: Request) -> tuple[str, str, str | None]:
    """Return the address and message id in a request's path, and the request's token."""
    return request.path_params["address"], request.path_params["id"], token(request)


def _is_dropped(address: str) -> bool:
    return f".{address.rpartition('@')[2]}".endswith(f".{_DROPPED_DOMAIN}")


def _named(message: Message, has: Collection[Feature]) -> str:
    """Describe a message that a wait skipped, with the features it lacks."""
    lacks = [one for one in ("code", "link") if one in has and not getattr(message.findings, f"{one}s")]
    lacking = f" without a {' or a '.join(lacks)}" if lacks else ""
    return f'"{message.subject[:_MAX_NAMED_CHARACTERS]}" from {message.from_address[:_MAX_NAMED_CHARACTERS]}{lacking}'


@contextmanager
def _no_reasons() -> Iterator[None]:
    """Raise the same 404 for every expired view, regardless of the reason, to reveal nothing about the address."""
    try:
        yield
    except (AddressExpired, AddressNotFound, MessageNotFound):
        raise BadRequest("not-found") from None


class ViewEndpoints:
    """Endpoints for views. A view states ``host`` as its source; pages on ``cors_origins`` may frame it."""

    def __init__(
        self,
        service: InboxService,
        serializer: Serializer,
        slots: ResponseSlots,
        host: str,
        cors_origins: Sequence[str],
    ) -> None:
        self._host = host
        self._ancestors = " ".join(["'self'", *cors_origins])
        self._viewer = service.viewer
        self._follower = service.follower
        self._serializer = serializer
        self._slots = slots

    @Operation(
        f"POST {MESSAGE}/view",
        "createView",
        Returns(201, "The path of the view.", ViewItem, headers=("Location",)),
        body=ViewRequest,
    )
    async def create(self, request: Request) -> Response:
        """Get a path to view a message as HTML.

        Intended for a frame, which cannot send a token. The path is valid for a minute and requires no token. The
        request counts towards the page rate limit (`page`). If it is refused, it also counts towards the API rate
        limit.
        """
        view_request = await read_json(request, ViewRequest)
        address, message_id, key = _message_of(request)
        secret, grant, remote_images = await self._viewer.permit(
            address, message_id, key, remote_images=view_request.remote_images
        )
        path = self._serializer.view_path(secret)
        return JsonResponse(self._serializer.view(secret, grant, remote_images), 201, {"Location": path})

    @Operation(
        "GET /view/{secret}",
        "lookAtView",
        Returns(200, "A page for a sandboxed frame.", media_types=("text/html",), schema=TEXT),
        security="none",
        problems=("not-found", "busy", "storage-unavailable"),
    )
    async def show(self, request: Request) -> ASGIApp:
        """View a message as HTML.

        The HTML is sanitised. Its policy allows no scripts, and allows remote content only if requested.
        """
        secret = request.path_params["secret"]
        with _no_reasons():
            inbox, grant, size_bytes = await self._viewer.find(secret)
        if size_bytes <= IN_LOOP_BYTES:
            return await self._page(request, secret, grant)
        page = LargeResponse(self._slots, client(request), partial(self._page, request, secret, grant))
        return CutOff(page, self._follower.watch(inbox, grant.message_id))

    async def _page(self, request: Request, secret: str, grant: Grant) -> Response:
        with _no_reasons():
            view = await self._viewer.open(secret, grant)
        images = "data: https:" if grant.remote_images else "data:"
        policy = _POLICY.format(images=images, ancestors=self._ancestors)
        # Browsers omit this field over plain HTTP, except to localhost. The view is then assumed to be in a frame.
        is_framed = request.headers.get("sec-fetch-dest") != "document"
        html = view.html if is_framed else viewpage.served_by(view.html, self._host)
        return Response(html, media_type="text/html", headers={"Content-Security-Policy": policy})
