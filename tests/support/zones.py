"""The pytest plugin's DNS server, extended to record queries and change responses."""

import socket

import dns.rdatatype

from tmpmaild.pytest_plugin import zones


class Zones(zones.Zones):
    """``asked`` lists the names and types of the queries so far.

    ``spoil`` may be set to a function that takes a response as bytes and returns the bytes to send, or None for no
    response.
    """

    def __init__(self, text="") -> None:
        self.asked = []
        self.spoil = lambda wire: wire
        super().__init__(text)

    def answer(self, query):
        (question,) = query.question
        self.asked.append((question.name.to_text(omit_final_dot=True), dns.rdatatype.to_text(question.rdtype)))
        return super().answer(query)

    def sent(self, wire):
        return self.spoil(wire)


def silent():
    """Return a socket that receives queries but never responds, like an unresponsive resolver."""
    dead = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    dead.bind(("127.0.0.1", 0))
    return dead


def text_record(name, *values, ttl=60):
    """Return a TXT record with its value split into strings of 255 characters."""
    whole = "".join(values)
    strings = " ".join(f'"{whole[at : at + 255]}"' for at in range(0, max(len(whole), 1), 255))
    return f"{name}. {ttl} IN TXT {strings}\n"
