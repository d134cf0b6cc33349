"""The Python client of the HTTP API, for tests that receive mail; it only needs the URL of the service.

    from tmpmaild.client import Client

    with Client("http://localhost:8025") as client:
        inbox = client.create()
        sign_up(inbox.address)
        code = inbox.wait_for_code(subject="confirm", timeout=60)

``AsyncClient`` has the same interface, with ``await``. Both clients perform the I/O for a shared core: ``remote.py``,
``waiting.py`` and ``reconnecting.py`` build the requests and interpret the responses, but open no sockets.

Our commands and the pytest plugin use this core with a ``Driver`` from ``aio.py`` or ``sync.py``. The core is internal.
"""

try:
    import httpx2 as _httpx2
except ImportError as error:
    raise ImportError("the client needs httpx2: pip install httpx2") from error

from tmpmaild.client.aio import AsyncAllMail, AsyncAttachment, AsyncClient, AsyncInbox, AsyncMail
from tmpmaild.client.errors import (
    AddressExpired,
    AddressNotFound,
    AddressTaken,
    BadHost,
    Blocked,
    Busy,
    CatchAllOff,
    ConnectionLost,
    FieldError,
    InternalError,
    InvalidRequest,
    MessageNotFound,
    NotAuthenticated,
    NotFound,
    NotInMail,
    NotTmpmaild,
    Problem,
    RateLimited,
    ServiceUnreachable,
    Stopping,
    StorageFull,
    StorageUnavailable,
    TmpmaildError,
    TooManyStreams,
    Unauthorized,
    UnexpectedMail,
    WaitTimeout,
    WebhooksOff,
)
from tmpmaild.client.models import (
    Authentication,
    BodyLink,
    Code,
    Details,
    Envelope,
    Fault,
    Handover,
    Link,
    Message,
    Person,
    Refusal,
    SessionRecipient,
    Webhook,
    WebhookCall,
)
from tmpmaild.client.reconnecting import Arrived, Deleted, Event, Expired, Extended
from tmpmaild.client.sync import AllMail, Attachment, Client, Inbox, Mail
from tmpmaild.client.views import AllFilters, Filters

del _httpx2

__all__ = [
    "AddressExpired",
    "AddressNotFound",
    "AddressTaken",
    "AllFilters",
    "AllMail",
    "Arrived",
    "AsyncAllMail",
    "AsyncAttachment",
    "AsyncClient",
    "AsyncInbox",
    "AsyncMail",
    "Attachment",
    "Authentication",
    "BadHost",
    "Blocked",
    "BodyLink",
    "Busy",
    "CatchAllOff",
    "Client",
    "Code",
    "ConnectionLost",
    "Deleted",
    "Details",
    "Envelope",
    "Event",
    "Expired",
    "Extended",
    "Fault",
    "FieldError",
    "Filters",
    "Handover",
    "Inbox",
    "InternalError",
    "InvalidRequest",
    "Link",
    "Mail",
    "Message",
    "MessageNotFound",
    "NotAuthenticated",
    "NotFound",
    "NotInMail",
    "NotTmpmaild",
    "Person",
    "Problem",
    "RateLimited",
    "Refusal",
    "ServiceUnreachable",
    "SessionRecipient",
    "Stopping",
    "StorageFull",
    "StorageUnavailable",
    "TmpmaildError",
    "TooManyStreams",
    "Unauthorized",
    "UnexpectedMail",
    "WaitTimeout",
    "Webhook",
    "WebhookCall",
    "WebhooksOff",
]
