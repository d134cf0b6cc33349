"""A small DNS server for ``tmpmaild_dns`` that serves a master file (RFC 1035 §5), based on dnspython."""

import socketserver
import struct
import threading
from contextlib import ExitStack

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.zone

_UDP_BYTES = 1232
_MAX_ALIASES = 20


class Zones(ExitStack):
    """Serves the master file ``text`` over UDP and TCP on a free port of 127.0.0.1, in threads, until it is closed.

    Raises ``dns.exception.DNSException`` if ``text`` is not a valid master file.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.set(text)
        tcp = socketserver.ThreadingTCPServer(("127.0.0.1", 0), type("", (_Tcp,), {"zones": self}))
        self.place = f"127.0.0.1:{tcp.server_address[1]}"
        udp = socketserver.ThreadingUDPServer(("127.0.0.1", tcp.server_address[1]), type("", (_Udp,), {"zones": self}))
        for server in (tcp, udp):
            server.daemon_threads = True
            server.block_on_close = False
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            self.callback(server.server_close)
            self.callback(server.shutdown)

    def set(self, text: str) -> None:
        """Replace the master file."""
        self._zone = dns.zone.from_text(text, ".", relativize=False, check_origin=False)
        # The parents of the names in the file exist too, even without records (empty non-terminals).
        self._names = {name.split(depth)[1] for name in self._zone for depth in range(1, len(name) + 1)}

    def answer(self, query: dns.message.Message) -> dns.message.Message:
        """Return the response to a query; aliases are followed."""
        response = dns.message.make_response(query, recursion_available=True)
        name, kind = query.question[0].name, query.question[0].rdtype
        for _ in range(_MAX_ALIASES):
            found = self._zone.get_rdataset(name, kind)
            alias = self._zone.get_rdataset(name, dns.rdatatype.CNAME)
            records = found or alias
            if records is None:
                if name.canonicalize() not in self._names:
                    response.set_rcode(dns.rcode.NXDOMAIN)
                break
            section = response.find_rrset(response.answer, name, dns.rdataclass.IN, records.rdtype, create=True)
            for record in records:
                section.add(record, records.ttl)
            if found or alias is None:
                break
            name = alias[0].target
        return response

    def sent(self, wire: bytes) -> bytes | None:
        """Return the bytes to send for a response, or None to send nothing; tests override this."""
        return wire


class _Udp(socketserver.BaseRequestHandler):
    zones: Zones

    def handle(self) -> None:
        query, sender = self.request
        response = self.zones.answer(dns.message.from_wire(query))
        wire = response.to_wire(max_size=65535)
        if len(wire) > _UDP_BYTES:
            response.flags |= dns.flags.TC
            response.answer.clear()
            wire = response.to_wire()
        if (sent := self.zones.sent(wire)) is not None:
            sender.sendto(sent, self.client_address)


class _Tcp(socketserver.StreamRequestHandler):
    zones: Zones

    def handle(self) -> None:
        (length,) = struct.unpack("!H", self.rfile.read(2))
        wire = self.zones.answer(dns.message.from_wire(self.rfile.read(length))).to_wire(max_size=65535)
        if (sent := self.zones.sent(wire)) is not None:
            self.wfile.write(struct.pack("!H", len(sent)) + sent)
