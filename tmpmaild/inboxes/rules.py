"""The operator's rules for addresses: domains, lifetimes, and whether mail to an unknown address creates it."""

from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.config.settings import Config
from tmpmaild.errors import InvalidRequest
from tmpmaild.hostnames import ANY_DOMAIN, WILDCARD, Domains, domains, to_ascii
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import NAME_HELD_MS, Inbox, Purpose


class Rules(Struct, frozen=True):
    """The operator's configuration, and the ``retired`` domains.

    A retired domain accepts no new addresses, and is kept for its existing addresses until the given time. In a test
    service, a name can be reused as soon as its inbox has expired.
    """

    config: Config
    retired: Mapping[str, int] = {}
    purpose: Purpose = Purpose.MAIL

    @property
    def catch_all(self) -> bool:
        """Whether messages to any recipient at any domain are accepted."""
        return self.purpose is Purpose.CATCHING

    @property
    def name_held_ms(self) -> int:
        """How long a name is reserved after its inbox has expired."""
        return NAME_HELD_MS if self.purpose is Purpose.MAIL else 0

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains for new addresses; the first is the default, and ``*.NAME`` matches every subdomain of NAME."""
        return self.config.domains

    def with_domain(self, mailbox: Mailbox) -> Mailbox:
        """Return a mailbox that has a domain.

        If the given mailbox has no domain (``<postmaster>``), the first domain is used.
        """
        return mailbox if mailbox.domain else replace(mailbox, domain=self.domains[0].removeprefix(WILDCARD))

    def extendable_until_ms(self, inbox: Inbox) -> int:
        """Return the latest expiry that may be set, which is never earlier than the current expiry."""
        last_ms = inbox.created_at_ms + self.config.addresses.max_lifetime_seconds * 1000
        kept_until_ms = self._kept_until_ms(inbox.address.rpartition("@")[2], last_ms)
        # The operator may have allowed a longer lifetime when the inbox was created or extended.
        return max(min(last_ms, kept_until_ms), inbox.expires_at_ms)

    def _kept_until_ms(self, domain: str, last_ms: int) -> int:
        if domain in self.own_domains:
            return last_ms
        return max((until_ms for name, until_ms in self.retired.items() if domain in domains((name,))), default=last_ms)

    @property
    def own_domains(self) -> Domains:
        """The domains in which addresses can be created, including those that a wildcard matches."""
        if self.catch_all:
            return ANY_DOMAIN
        return domains(self.domains)

    def accepting(self, now_ms: int) -> Domains:
        """Return the domains whose mail is accepted, including retired domains whose addresses may still be live."""
        if not self.retired:
            return self.own_domains
        return domains((*self.domains, *(name for name, until_ms in self.retired.items() if now_ms < until_ms)))

    def domain(self, wanted: str | None) -> str:
        """Return the domain of a new address. Raises ``InvalidRequest``."""
        if wanted is None:
            return self.domains[0]
        with suppress(ValueError):
            if (name := to_ascii(wanted)) in self.own_domains:
                return name
        raise InvalidRequest(("/domain", f"expected one of {', '.join(self.domains)}"))

    def lifetime_of(self, wanted_seconds: int | None) -> int:
        """Return the lifetime of a new address in milliseconds. Raises ``InvalidRequest``."""
        configured = self.config.addresses
        if wanted_seconds is None:
            return configured.lifetime_seconds * 1000
        if wanted_seconds > configured.max_lifetime_seconds:
            raise InvalidRequest(("/expires_in_seconds", f"expected at most {configured.max_lifetime_seconds}"))
        return wanted_seconds * 1000
