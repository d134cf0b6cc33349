"""What the operator has configured for addresses, and what follows from it."""

from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct

from tmpmaild import webhooktargets
from tmpmaild.errors import InvalidRequest
from tmpmaild.hostnames import Domains, domains, to_ascii
from tmpmaild.model import Inbox


class Rules(Struct, frozen=True, kw_only=True):
    """What the operator has configured: the domains (the first is the default), the lifetime, who may read.

    ``*.NAME`` among the domains stands for every name below it. ``retired`` domains take no new addresses; each is kept
    until a time for those that it has. ``hostname`` is our name in the ``Received`` lines of sources. An address may
    live up to ``max_lifetime_ms`` after its creation, if that is more than ``lifetime_ms``. With ``accept_unknown``
    mail to an address that never existed creates it. With ``faults`` holders of addresses may order faults. With
    ``keep_refusals`` everybody may read what SMTP clients were refused. ``webhooks`` says where those may lead.
    """

    domains: tuple[str, ...]
    lifetime_ms: int
    require_token: bool = False
    hostname: str = "localhost"
    max_lifetime_ms: int = 0
    accept_unknown: bool = False
    retired: Mapping[str, int] = {}
    faults: bool = False
    keep_refusals: bool = False
    webhooks: tuple[webhooktargets.Rule, ...] = ()

    @property
    def longest_lifetime_ms(self) -> int:
        """How long an address may live, from its creation."""
        return max(self.max_lifetime_ms, self.lifetime_ms)

    def extendable_until_ms(self, inbox: Inbox) -> int:
        """Return the latest expiry that may be set, never before the present one."""
        last_ms = inbox.created_at_ms + self.longest_lifetime_ms
        kept_until_ms = self._kept_until_ms(inbox.address.rpartition("@")[2], last_ms)
        # The operator may have allowed more when it was created or extended.
        return max(min(last_ms, kept_until_ms), inbox.expires_at_ms)

    def _kept_until_ms(self, domain: str, last_ms: int) -> int:
        if domain in self.ours:
            return last_ms
        return max((until_ms for name, until_ms in self.retired.items() if domain in domains((name,))), default=last_ms)

    @property
    def ours(self) -> Domains:
        """The domains that addresses can be created at, those that a wildcard stands for among them."""
        return domains(self.domains)

    def accepting(self, now_ms: int) -> Domains:
        """Return the domains whose mail is accepted: also those that were retired while their addresses may live."""
        if not self.retired:
            return self.ours
        return domains((*self.domains, *(name for name, until_ms in self.retired.items() if now_ms < until_ms)))

    def domain(self, wanted: str | None) -> str:
        """Return the domain of a new address. Raises ``InvalidRequest``."""
        if wanted is None:
            return self.domains[0]
        with suppress(ValueError):
            if (name := to_ascii(wanted)) in self.ours:
                return name
        raise InvalidRequest(("/domain", f"expected one of {', '.join(self.domains)}"))

    def lifetime_of(self, wanted_seconds: int | None) -> int:
        """Return the lifetime of a new address in milliseconds. Raises ``InvalidRequest``."""
        if wanted_seconds is None:
            return self.lifetime_ms
        if wanted_seconds * 1000 > self.longest_lifetime_ms:
            raise InvalidRequest(("/expires_in_seconds", f"expected at most {self.longest_lifetime_ms // 1000}"))
        return wanted_seconds * 1000
