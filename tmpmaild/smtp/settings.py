"""The settings of the SMTP server: the keys that an operator can set, and fixed limits."""

from tmpmaild.clients import Networks
from tmpmaild.config.settings import Smtp
from tmpmaild.smtp.conversation import MAX_RECIPIENTS


class SmtpSettings(Smtp, frozen=True, kw_only=True):
    """The section ``[smtp]`` with a ``hostname`` that is never empty, plus ``limits.exempt`` and fixed limits."""

    exempt: Networks = ()
    new_connections_per_minute: int = 600
    max_recipients: int = MAX_RECIPIENTS
    lenient: bool = False
    max_unknown_recipients: int = 100
    unknown_recipients_per_minute: int = 60
    unknown_recipients_burst: int = 600
