"""The suite of openspf through whole daemons: mail comes by SMTP from the client that a proxy names, a resolver answers."""

import smtplib

import openspf
import pytest

from daemons import NO_LIMITS
from zones import wait_until

IN_EVERY_RUN = ("Initial processing", "IP6 mechanism syntax", "Macro expansion rules")
NO_ADDRESS = {"toolonglabel", "emptylabel", "nolocalpart", "dorky-sentinel"}  # MAIL FROM is refused


class FromClient(smtplib.SMTP):
    """A session as a trusted proxy opens it for a client."""

    def __init__(self, port, ip) -> None:
        self._ip = ip
        super().__init__("127.0.0.1", port, local_hostname="localhost", timeout=30)

    def _get_socket(self, *where):
        connected = super()._get_socket(*where)
        kind, server = ("TCP6", "::1") if ":" in self._ip else ("TCP4", "127.0.0.1")
        connected.sendall(f"PROXY {kind} {self._ip} {server} 40000 25\r\n".encode())
        return connected


def deliver(daemon, address, case):
    """Deliver a mail as a case says; return whether its MAIL FROM was accepted."""
    with FromClient(daemon.smtp_port, case["host"]) as client:
        assert client.docmd(f"HELO {case['helo']}")[0] == 250
        if client.docmd(f"MAIL FROM:<{case.get('mailfrom') or ''}>")[0] != 250:
            return False
        assert client.rcpt(address)[0] == 250
        assert client.data(b"Subject: x\r\n\r\n")[0] == 250
    return True


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.proof] * (one not in IN_EVERY_RUN)) for one in openspf.SCENARIOS]
)
def test_openspf(start, name):
    scenario = openspf.SCENARIOS[name]
    with openspf.Zones(scenario) as zones:
        daemon = start(
            TMPMAILD_SENDERS__RESOLVER=zones.place, TMPMAILD_SMTP__TRUSTED_PROXIES="127.0.0.1/32", **NO_LIMITS
        )
        cases = scenario["tests"]
        addresses = {one: daemon.create() for one in cases}
        refused = {one for one, case in cases.items() if not deliver(daemon, addresses[one], case)}

        def found(address):
            (message,) = daemon.messages(address)
            return daemon.request(f"/api/v1/addresses/{address}/messages/{message['id']}").json["authentication"]

        results = {
            one: wait_until(lambda address=addresses[one]: found(address))["spf"]["result"]
            for one in cases.keys() - refused
        }
    assert refused == NO_ADDRESS & cases.keys()
    wrong = {one: result for one, result in results.items() if result not in openspf.expected(cases[one])}
    assert wrong == {}
    assert daemon.errors() == ""
