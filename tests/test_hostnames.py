"""Our domains: plain domains, and domains covered by a wildcard."""

import pytest

from tmpmaild.hostnames import Domains

OURS = Domains(("mail.example.com", "*.tenants.example.com"))


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("mail.example.com", True),
        ("a.mail.example.com", False),
        ("tenants.example.com", False),
        ("acme.tenants.example.com", True),
        ("a.b.c.tenants.example.com", True),
        ("xn--bcher-kva.tenants.example.com", True),
        ("*.tenants.example.com", False),
        (".tenants.example.com", False),
        ("a..tenants.example.com", False),
        ("-a.tenants.example.com", False),
        ("under_score.tenants.example.com", False),
        ("eviltenants.example.com", False),
        ("acme.tenants.example.com.evil.example", False),
        ("example.com", False),
        ("", False),
        ("x" * 64 + ".tenants.example.com", False),
    ],
)
def test_a_wildcard_matches_names_below_it_at_any_depth(name, is_ours):
    assert (name in OURS) is is_ours
