"""The body is hashed as dkimpy would canonicalize it, in linear time."""

import hashlib

import dkim.canonicalization
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.senders import canonical

PIECES = st.sampled_from([b"\r\n", b" ", b"\t", b"\r", b"x", b"word", b"  \t", b"\r\n\r\n", b"\0"])


@pytest.mark.parametrize("relaxed", [True, False])
@given(pieces=st.lists(PIECES, max_size=40), size=st.integers(1, 9), most=st.none() | st.integers(0, 60))
def test_a_body_read_in_pieces_is_canonicalized_as_dkimpy_does(relaxed, pieces, size, most):
    body = b"".join(pieces) + b"end\r\n"
    rules = dkim.canonicalization.Relaxed if relaxed else dkim.canonicalization.Simple
    for whole in (body, b"\r\n".join([*pieces, b""]), b"\r\n" * len(pieces)):
        expected = rules.canonicalize_body(whole)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(canonical, "_PIECE_BYTES", size)
            found = canonical.body_digest(b"head" + whole, 4, relaxed=relaxed, most=most)
        assert found == (hashlib.sha256(expected[:most]).digest(), len(expected))


@pytest.mark.parametrize("unit", [b" ", b"\r\n", b" \r\n", b"\t ", b"\r", b"x \r"])
def test_a_hostile_body_is_hashed_in_linear_time(unit):
    def digest(body):
        canonical.body_digest(body, 0, relaxed=True, most=None)

    assert_linear(digest, unit * (1_000_000 // len(unit)))
