"""What was found out about who sent a mail: a value for each method, its result in the words of RFC 8601."""

from msgspec import Struct


class SpfVerdict(Struct, frozen=True, gc=False):
    """Whether the client may send for the domain of MAIL FROM, or of HELO for the null path (RFC 7208)."""

    result: str
    domain: str = ""
    reason: str = ""


class DkimVerdict(Struct, frozen=True, gc=False):
    """Whether a signature holds (RFC 6376, RFC 8463)."""

    result: str
    domain: str = ""
    selector: str = ""
    reason: str = ""


class DmarcVerdict(Struct, frozen=True, gc=False):
    """Whether the domain of the From field vouches for the mail (RFC 7489); ``policy`` is what it asks for if not."""

    result: str
    policy: str = ""
    domain: str = ""
    reason: str = ""


class ArcVerdict(Struct, frozen=True, gc=False):
    """Whether the chain of those who handed the mail on holds (RFC 8617)."""

    result: str
    reason: str = ""


class DnsAnswer(Struct, frozen=True, gc=False):
    """What the resolver said to a question: the records as text, one a line, or why there are none."""

    name: str
    type: str
    answer: str


class Authentication(Struct, frozen=True):
    """Who sent a mail, so far as the DNS can tell; results are the words of RFC 8601."""

    spf: SpfVerdict
    dkim: tuple[DkimVerdict, ...]
    dmarc: DmarcVerdict
    arc: ArcVerdict
    dns: tuple[DnsAnswer, ...] = ()

    @property
    def authenticated(self) -> str | None:
        """The domain of the From field if it is proven, else None."""
        return self.dmarc.domain if self.dmarc.result == "pass" else None


def unchecked(result: str, reason: str) -> Authentication:
    """Return what is said of a mail that was not checked."""
    return Authentication(
        SpfVerdict(result, reason=reason), (), DmarcVerdict(result, reason=reason), ArcVerdict(result, reason=reason)
    )
