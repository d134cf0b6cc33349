"""Where webhooks may lead: whether the names of ``webhooks.allow`` can be called, and what its networks open."""

import ssl
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path

from tmpmaild import webhooktargets
from tmpmaild.cli.doctor.results import Result, ok, problem, warning
from tmpmaild.config.settings import Config
from tmpmaild.hostnames import WILDCARD
from tmpmaild.webhooktargets import Rule, Target

_CHECK, _AUTHORITIES = "webhooks.allow", "authorities"
_THIS_MACHINE = tuple(map(ip_address, ("127.0.0.1", "::1")))
_METADATA = tuple(map(ip_address, ("169.254.169.254", "fd00:ec2::254")))

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host; raises OSError."""


def check(config: Config, resolve: Resolve) -> Iterator[Result]:
    """Look the names up, and say which networks need a second thought; nothing where webhooks are off."""
    rules = config.webhooks.allow
    if rules:
        yield _authorities()
    for rule in rules:
        if rule.network is not None:
            yield from _network(rule)
        elif not rule.name.startswith(WILDCARD):
            yield _name(rules, rule, resolve)


def _authorities() -> Result:
    paths = ssl.get_default_verify_paths()
    file, folder = paths.cafile, paths.capath
    if file or (folder and any(Path(folder).iterdir())):
        return ok(_AUTHORITIES, f"certificates of webhooks are verified by {file or folder}")
    return problem(_AUTHORITIES, "no certificate of a webhook can be verified", "apt install ca-certificates")


def _network(rule: Rule) -> Iterator[Result]:
    for name, addresses in (("this machine", _THIS_MACHINE), ("the metadata of clouds", _METADATA)):
        if any(address in rule.network for address in addresses if rule.network):
            text = f"{rule.network} has {name}: whoever holds an address can have it called"
            yield warning(_CHECK, text, "name smaller networks, unless that is meant")


def _name(rules: Sequence[Rule], rule: Rule, resolve: Resolve) -> Result:
    target = Target("https", rule.name, rule.port or 443, "/")
    try:
        addresses = resolve(rule.name, target.port)
    except OSError as error:
        return warning(
            _CHECK, f"{rule.name}: {error.strerror or error}", "correct the name, or the resolver of this machine"
        )
    if any(webhooktargets.permits_address(rules, target, one) for one in addresses):
        return ok(_CHECK, f"{rule.name} can be called")
    text = f"{rule.name} leads to {', '.join(addresses)}, where no call goes"
    return problem(_CHECK, text, "if it is meant, add these addresses to webhooks.allow, with the port")
