"""The openspf test suite for RFC 7208, as shipped with pyspf, and a DNS server that serves its scenarios."""

from pathlib import Path

import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.MX
import dns.rdtypes.ANY.TXT
import dns.rrset
import yaml

import zones

FILE = Path(__file__).parents[1] / "senders/openspf/rfc7208-tests.yml"
# Uses libyaml, which is eight times as fast, because each worker reads the file.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SCENARIOS = {one["description"]: one for one in yaml.load_all(FILE.read_text(), LOADER)}
_LONGEST_CHAIN = 20


def expected(case):
    """Return the results that a test case allows."""
    return case["result"] if isinstance(case["result"], list) else [case["result"]]


class Zones(zones.Zones):
    """Serves a scenario's records; all queries for records after the word TIMEOUT fail, without a delay."""

    def set(self, scenario):
        self._records = {name.lower(): records for name, records in (scenario or {"zonedata": {}})["zonedata"].items()}

    def answer(self, query):
        response = dns.message.make_response(query, recursion_available=True)
        name, kind = query.question[0].name, dns.rdatatype.to_text(query.question[0].rdtype)
        for _ in range(_LONGEST_CHAIN):
            records = self._records.get(b".".join(name.labels[:-1]).decode("latin-1").lower())
            if records is None:
                response.set_rcode(dns.rcode.NXDOMAIN)
                break
            values, alias = _values(records, kind)
            if values is None:
                response.set_rcode(dns.rcode.SERVFAIL)
                break
            found = [_record(kind, value) for value in values] or [_record("CNAME", one) for one in alias]
            if found:
                response.answer.append(dns.rrset.from_rdata_list(name, 60, found))
            if values or not alias:
                break
            name = found[0].target
        return response


def _values(records, kind):
    """Return the values of a record type, or None if TIMEOUT precedes them, and the alias if there is one."""
    values, alias = [], []
    # A record listed only with the deprecated type SPF also counts as a TXT record.
    kinds = {"SPF", "TXT"} if not any("TXT" in record for record in records if record != "TIMEOUT") else {"TXT"}
    for record in records:
        if record == "TIMEOUT":
            return values or None, alias
        ((of, value),) = record.items()
        if of == "CNAME":
            alias = [value]
        elif value != "NONE" and (of == kind or (kind == "TXT" and of in kinds)):
            values.append(value)
    return values, alias


def _record(kind, value):
    of = (dns.rdataclass.IN, dns.rdatatype.from_text(kind))
    if kind == "MX":
        return dns.rdtypes.ANY.MX.MX(*of, value[0], _name(value[1]))
    if kind == "TXT":
        octets = "".join(value).encode()
        return dns.rdtypes.ANY.TXT.TXT(*of, [octets[at : at + 255] for at in range(0, len(octets) or 1, 255)])
    return dns.rdata.from_text(*of, value if kind in {"A", "AAAA"} else _name(value).to_text())


def _name(text):
    return dns.name.Name([*text.rstrip(".").encode("latin-1").split(b"."), b""] if text else [b""])
