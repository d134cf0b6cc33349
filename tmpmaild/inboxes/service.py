"""``InboxService``: the parts of this package, built on one storage and connected to each other.

Their behaviour is in their own modules: ``delivering.py`` for SMTP; ``changing.py``, ``reading.py``, ``viewing.py``
and ``following.py`` for HTTP.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random, SystemRandom

from tmpmaild.inboxes.access import Access
from tmpmaild.inboxes.audit import Audit
from tmpmaild.inboxes.blocks import Blocks
from tmpmaild.inboxes.bus import Bus
from tmpmaild.inboxes.caches import Caches
from tmpmaild.inboxes.catching import Catcher
from tmpmaild.inboxes.changing import InboxManager
from tmpmaild.inboxes.creating import AddressFactory
from tmpmaild.inboxes.delivering import Deliverer
from tmpmaild.inboxes.faults import Faults, Refusals
from tmpmaild.inboxes.following import Follower
from tmpmaild.inboxes.reading import Check, MailReader
from tmpmaild.inboxes.rules import Rules
from tmpmaild.inboxes.viewing import Viewer
from tmpmaild.inboxes.webhooks import Webhooks
from tmpmaild.model import InboxChange
from tmpmaild.scheduling.turns import FairScheduler
from tmpmaild.storage.base import Storage


@dataclass(slots=True)
class InboxService:
    """The product without SMTP, HTTP and SQL, as used by the SMTP and HTTP servers. There is one per process.

    Its own methods are those that involve several parts.
    """

    rules: Rules
    scheduler: FairScheduler
    blocks: Blocks
    faults: Faults
    refusals: Refusals
    webhooks: Webhooks
    caches: Caches
    bus: Bus
    audit: Audit
    factory: AddressFactory
    access: Access
    deliverer: Deliverer
    inboxes: InboxManager
    mail: MailReader
    viewer: Viewer
    follower: Follower
    catcher: Catcher | None

    def on_commit(self, changes: Sequence[InboxChange]) -> None:
        """Process a commit: outdated cache entries must be dropped first, because the listeners read."""
        self.caches.update(changes)
        if self.faults.ordered:
            self.faults.update(changes)
        if self.bus.listeners:
            self.bus.publish(changes)

    def change_rules(self, rules: Rules) -> None:
        """Replace the rules. Existing addresses and streams are kept."""
        config = rules.config
        self.rules = self.factory.rules = rules
        self.audit.config = config
        self.access.require_token = config.http.require_token
        self.mail.hostname = config.host_name
        self.caches.recipients.clear()  # they may be full by the new limits
        self.faults.allow(allowed=config.smtp.faults)
        self.refusals.want(wanted=config.smtp.keep_refusals)
        self.webhooks.allowed = config.webhooks.allow

    def forget_expired(self, now_ms: int) -> None:
        """Drop expired entries from memory."""
        self.caches.forget_expired(now_ms)
        if self.blocks.has_any:
            self.blocks.forget_expired()
        if self.faults.ordered:
            self.faults.forget_expired(now_ms)
        if self.refusals.wanted:
            self.refusals.forget_expired(now_ms)


def build(
    storage: Storage,
    rules: Rules,
    scheduler: FairScheduler,
    *,
    random: Random | None = None,
    give_memory_back: Callable[[], None] = lambda: None,
    check: Check | None = None,
) -> InboxService:
    """Build all parts on a storage; ``on_commit`` must be called after each of its commits.

    Slow work runs in turns that ``scheduler`` gives to clients. Names and secrets are drawn from ``random``, by default
    from the operating system. ``give_memory_back`` is called in a thread, at most once a second, after a large message
    has been parsed. With ``check``, senders are checked: of new messages, and of older messages when they are read.
    """
    config, clock, random = rules.config, storage.clock, random or SystemRandom()
    blocks = Blocks(clock)
    faults = Faults(allowed=config.smtp.faults)
    webhooks = Webhooks(storage, config.webhooks.allow, senders_are_checked=check is not None)
    caches, bus, audit = Caches(may_cache=storage.may_cache), Bus(), Audit(storage, config)
    storage.watch(bus.listened_inboxes, bus.overflow, blocks.replace)
    factory = AddressFactory(storage, rules, blocks, faults, audit, random=random)
    access = Access(storage, caches, require_token=config.http.require_token)
    mail = MailReader(storage, access, caches, scheduler, hostname=config.host_name, check=check)
    catcher = Catcher(storage, factory) if rules.catch_all else None
    deliverer = Deliverer(
        storage,
        caches.recipients,
        factory,
        scheduler,
        audit,
        give_memory_back=give_memory_back,
        check=check,
        catcher=catcher,
    )
    return InboxService(
        rules=rules,
        scheduler=scheduler,
        blocks=blocks,
        faults=faults,
        refusals=Refusals(clock, wanted=config.smtp.keep_refusals),
        webhooks=webhooks,
        caches=caches,
        bus=bus,
        audit=audit,
        factory=factory,
        access=access,
        deliverer=deliverer,
        inboxes=InboxManager(storage, access, factory, faults, webhooks),
        mail=mail,
        viewer=Viewer(storage, access, caches, scheduler, random=random),
        follower=Follower(mail, access, bus, clock=clock),
        catcher=catcher,
    )
