"""A service that is notified of its storage's commits, as in the daemon."""

import random
from contextlib import asynccontextmanager

from tmpmaild.config.settings import Addresses, Config, Http, Smtp, Webhooks
from tmpmaild.inboxes.rules import Rules
from tmpmaild.inboxes.service import build
from tmpmaild.model import Purpose
from tmpmaild.scheduling.turns import FairScheduler
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage


def rules(
    *domains,
    retired=None,
    lifetime_seconds=3600,
    max_lifetime_seconds=0,
    require_token=False,
    webhooks=(),
    accept_unknown=False,
    purpose=Purpose.MAIL,
    **smtp,
):
    """Return the rules for a configuration; all other arguments are keys of its ``[smtp]`` section."""
    config = Config(
        domains=domains or ("mail.example.com",),
        addresses=Addresses(lifetime_seconds=lifetime_seconds, max_lifetime_seconds=max_lifetime_seconds),
        http=Http(require_token=require_token),
        smtp=Smtp(**{"hostname": "localhost", "accept_unknown": "create" if accept_unknown else "reject"} | smtp),
        webhooks=Webhooks(allow=webhooks),
    )
    return Rules(config, retired or {}, purpose)


def service_over(storage, *, check=None, release_memory=lambda: None, random=None, domains=(), **more):
    """Return a service that uses a storage and is notified of its commits."""
    chosen = rules(*domains, **more)
    parts = {"random": random, "release_memory": release_memory, "check": check}
    service = build(storage, chosen, FairScheduler(), **parts)
    storage.on_committed(service.on_commit)
    return service


@asynccontextmanager
async def all_turns(scheduler):
    """Occupy all turns of a scheduler."""
    async with scheduler.turn(0, "holder"), scheduler.turn(0, "holder"):
        yield


@asynccontextmanager
async def opened_service(path, clock, **more):
    """Open a service with a database file of at most 1 GiB, and without any other storage limits."""
    async with open_storage(SqliteSettings(max_bytes=1 << 30, path=path), clock) as storage:
        yield service_over(storage, random=random.Random(1), **more)
