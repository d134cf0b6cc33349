"""The sans-I/O AUTH exchange of one session (RFC 4954), which accepts any credentials and stores none."""

import re

from tmpmaild.smtp import replies
from tmpmaild.smtp.replies import Reply

MAX_RESPONSE_BYTES = 12_288 + 1  # RFC 4954 §4, and the CR of the line end
COMMAND = re.compile(rb"(?i:AUTH) ")
"""The start of a line that may contain an initial response."""

_PROMPTS = {
    b"PLAIN": (replies.NO_CHALLENGE,),  # RFC 4616
    b"LOGIN": (replies.USER_NAME, replies.PASSWORD),  # LOGIN is not defined in any RFC, but every client supports it
}
_BASE64_GROUP = 4
_CANCEL = b"*"
_EMPTY_INITIAL_RESPONSE = b"="

_are_base64_characters = re.compile(rb"[A-Za-z0-9+/]*+={0,2}").fullmatch


class SaslExchange:
    """The AUTH exchange of a session that offers AUTH. While ``under_way``, the next line is a response.

    ``mechanism`` is the mechanism that has succeeded, or "".
    """

    __slots__ = ("_prompts", "_tried", "mechanism", "under_way")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Discard the exchange when TLS starts: it took place in clear text (RFC 3207 §4.2)."""
        self.mechanism = ""
        self._tried = ""
        self.under_way = False
        self._prompts: tuple[Reply, ...] = ()  # the prompts that have not been sent yet

    def begin(self, argument: bytes) -> Reply:
        """Parse the argument of AUTH: a mechanism, and optionally the initial response."""
        if self.mechanism:
            return replies.BAD_SEQUENCE
        name, _, response = argument.upper().partition(b" ")
        if not name:
            return replies.BAD_ARGUMENT
        prompts = _PROMPTS.get(name)
        if prompts is None:
            return replies.UNKNOWN_MECHANISM
        self._tried = name.decode()
        self._prompts = prompts[1:]
        self.under_way = True
        if not response:
            return prompts[0]
        return self.respond(b"" if response == _EMPTY_INITIAL_RESPONSE else argument.partition(b" ")[2])

    def respond(self, response: bytes) -> Reply:
        """Accept a response, and either prompt for the next response or end the exchange."""
        if response == _CANCEL:
            return self._end(replies.AUTH_CANCELLED)
        if len(response) % _BASE64_GROUP or not _are_base64_characters(response):
            return self._end(replies.NOT_BASE64)
        if self._prompts:
            prompt, self._prompts = self._prompts[0], self._prompts[1:]
            return prompt
        self.mechanism = self._tried
        return self._end(replies.AUTHENTICATED)

    def refuse_long_line(self) -> Reply:
        """End any exchange, and return the reply to a line that exceeds the limit."""
        return self._end(replies.RESPONSE_TOO_LONG) if self.under_way else replies.LINE_TOO_LONG

    def _end(self, reply: Reply) -> Reply:
        self.under_way = False
        return reply
