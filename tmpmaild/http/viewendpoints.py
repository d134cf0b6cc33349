"""The endpoints of views: a secret path for one message, and the sanitised page behind it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from tmpmaild.errors import AddressExpired, AddressNotFound, MessageNotFound
from tmpmaild.http.answers import IN_LOOP_BYTES, JsonResponse, LargeAnswer, LargeAnswerSlots
from tmpmaild.http.parsing import read_body
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.requests import ViewRequest
from tmpmaild.http.resource import body, client, token
from tmpmaild.http.wire import Wire
from tmpmaild.inboxes.viewing import Grant, Viewer

_POLICY = (
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; img-src {images}; "
    "style-src 'unsafe-inline'"
)


@contextmanager
def _no_reasons() -> Iterator[None]:
    """Answer 404 whatever the reason why a view has ended, so that its path tells nothing of the address."""
    try:
        yield
    except (AddressExpired, AddressNotFound, MessageNotFound):
        raise BadRequest("not-found", "") from None


class ViewEndpoints:
    """The endpoints over one service."""

    def __init__(self, viewer: Viewer, wire: Wire, slots: LargeAnswerSlots) -> None:
        self._viewer = viewer
        self._wire = wire
        self._slots = slots

    async def create(self, request: Request) -> Response:
        """Create the path of a view, which works for a minute."""
        wanted = read_body(await body(request), request.headers.get("content-type"), ViewRequest)
        secret, grant, remote_images = await self._viewer.permit(
            request.path_params["address"],
            request.path_params["id"],
            token(request),
            remote_images=wanted.remote_images,
        )
        path = self._wire.view_path(secret)
        return JsonResponse(msgspec.json.encode(self._wire.view(secret, grant, remote_images)), 201, {"Location": path})

    async def show(self, request: Request) -> ASGIApp:
        """Return the page of a view."""
        secret = request.path_params["secret"]
        with _no_reasons():
            grant, size_bytes = await self._viewer.find(secret)
        if size_bytes <= IN_LOOP_BYTES:
            return await self._page(secret, grant)
        return LargeAnswer(self._slots, client(request), partial(self._page, secret, grant))

    async def _page(self, secret: str, grant: Grant) -> Response:
        with _no_reasons():
            view = await self._viewer.look(secret, grant)
        policy = _POLICY.format(images="data: https:" if grant.remote_images else "data:")
        return Response(view.html, media_type="text/html", headers={"Content-Security-Policy": policy})
