"""Which names are ours: plain domains, and those that a wildcard stands for."""

from tables import rows_of, table
from tmpmaild.hostnames import Domains

ROWS = rows_of(__file__)

OURS = Domains(("mail.example.com", "*.tenants.example.com"))


@table(
    ("name", "is_ours"),
    [*ROWS["a wildcard stands for the names below it at any depth"], ("x" * 64 + ".tenants.example.com", False)],
)
def test_a_wildcard_stands_for_the_names_below_it_at_any_depth(name, is_ours):
    assert (name in OURS) is is_ours
