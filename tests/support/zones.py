"""A small DNS server for tests: it answers from a master file, by UDP and TCP, in threads."""

import socket
import socketserver
import struct
import threading
import time

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.zone

_UDP_BYTES = 1232


class Zones:
    """Serves ``text``, a master file of absolute names; ``asked`` are the names and types of the questions so far.

    ``spoil`` may be set to a function that gets the answer as octets and returns what is sent, None for nothing.
    """

    def __init__(self, text="", spoil=None) -> None:
        self.asked = []
        self.spoil = spoil or (lambda wire: wire)
        self.set(text)
        handler = {"zones": self}
        self._tcp = socketserver.ThreadingTCPServer(("127.0.0.1", 0), type("Tcp", (_Tcp,), handler))
        self.port = self._tcp.server_address[1]
        self._udp = socketserver.ThreadingUDPServer(("127.0.0.1", self.port), type("Udp", (_Udp,), handler))
        for server in (self._udp, self._tcp):
            server.daemon_threads = True
            server.block_on_close = False
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def place(self):
        return f"127.0.0.1:{self.port}"

    def set(self, text):
        """Serve another master file from now on."""
        self._zone = dns.zone.from_text(text, ".", relativize=False, check_origin=False)
        # Names between those of the zone exist, without records of their own.
        self._names = {dns.name.Name(name[at:]) for name in self._zone for at in range(len(name))}

    def answer(self, query):
        """Return the answer to a question."""
        response = dns.message.make_response(query, recursion_available=True)
        question = query.question[0]
        name = question.name
        self.asked.append((name.to_text(omit_final_dot=True), dns.rdatatype.to_text(question.rdtype)))
        for _ in range(20):
            node = self._zone.get_node(name)
            found = node and node.get_rdataset(dns.rdataclass.IN, question.rdtype)
            alias = node and node.get_rdataset(dns.rdataclass.IN, dns.rdatatype.CNAME)
            if not (found or alias):
                if dns.name.Name(map(bytes.lower, name.labels)) not in self._names:
                    response.set_rcode(dns.rcode.NXDOMAIN)
                break
            section = response.find_rrset(
                response.answer, name, dns.rdataclass.IN, (found or alias).rdtype, create=True
            )
            section.update(found or alias)
            if found:
                break
            name = alias[0].target
        return response

    def close(self):
        for server in (self._udp, self._tcp):
            server.shutdown()
            server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Udp(socketserver.BaseRequestHandler):
    def handle(self):
        octets, sender = self.request
        response = self.zones.answer(dns.message.from_wire(octets))
        wire = response.to_wire(max_size=65535)
        if len(wire) > _UDP_BYTES:
            response.flags |= dns.flags.TC
            for section in response.sections[1:3]:
                section.clear()
            wire = response.to_wire()
        spoiled = self.zones.spoil(wire)
        if spoiled is not None:
            sender.sendto(spoiled, self.client_address)


class _Tcp(socketserver.StreamRequestHandler):
    def handle(self):
        (length,) = struct.unpack("!H", self.rfile.read(2))
        wire = self.zones.spoil(
            self.zones.answer(dns.message.from_wire(self.rfile.read(length))).to_wire(max_size=65535)
        )
        if wire is not None:
            self.wfile.write(struct.pack("!H", len(wire)) + wire)


def silent():
    """Return a socket that takes questions and never answers; its port is that of a dead resolver."""
    dead = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    dead.bind(("127.0.0.1", 0))
    return dead


def text_record(name, *values, ttl=60):
    """Return a TXT record, whose values are cut into strings of 255."""
    whole = "".join(values)
    strings = " ".join(f'"{whole[at : at + 255]}"' for at in range(0, max(len(whole), 1), 255))
    return f"{name}. {ttl} IN TXT {strings}\n"


def wait_until(condition, seconds=20):
    """Wait until a condition holds, asking now and then."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found
