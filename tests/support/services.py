"""A service that is told of commits, as the daemon connects it."""

import itertools

from tmpmaild.inboxes.creating import Rules
from tmpmaild.inboxes.service import InboxService


def connected(storage, service, *others):
    """Tell the service, then others, of each commit; return the service."""
    for hear in (service.hear, *others):
        storage.on_committed(hear)
    return service


def service_over(storage, clock, *, choice=min, new_token=None, check=None, **rules):
    """Return a service over a storage that tells it of commits; its tokens are token-0, token-1 and so on."""
    tokens = map("token-{}".format, itertools.count())
    chosen = Rules(**{"domains": ("mail.example.com",), "lifetime_ms": 3_600_000} | rules)
    new_token = new_token or (lambda: next(tokens))
    return connected(
        storage, InboxService(storage, chosen, clock=clock, choice=choice, new_token=new_token, check=check)
    )
