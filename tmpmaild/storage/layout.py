"""Where text may stand in a table, so that deleting it leaves no copy behind.

``secure_delete`` zeroes what is deleted where it stands. But when deletes leave a b-tree page two thirds empty,
SQLite spreads the neighbours over fewer pages, and in the gaps of pages laid out anew copies of what lived there
stay: after half of 20,000 mixed mails had expired, 25 of them could still be read in the file. Overflow pages are
never merged, split or copied within the file but whole, and are zeroed when freed. So a row with text begins with
an octet filler as long as the part of it that stands in the b-tree page, and all text stands in overflow pages.

The numbers are those of the file format (https://www.sqlite.org/fileformat2.html#b_tree_pages, "payload"): of a
row of P octets, with U octets usable in a page, the b-tree page holds K = M + (P - M) mod (U - 4) octets if that
is at most U - 35, else M.
"""

PAGE_BYTES = 4096
LOCAL_BYTES = (PAGE_BYTES - 12) * 32 // 255 - 23  # M: 489
OVERFLOW_BYTES = PAGE_BYTES - 4
FILLER = bytes(LOCAL_BYTES)

# K is over U - 35 (so M it is) in the last 519 octets before the overflow pages are exactly full. What a row's
# header and numbers take is not counted out; it is between 30 and 120 octets.
_AIM_BYTES = OVERFLOW_BYTES - 300

SLOTS = 12
SLOT_BYTES = 320  # a local part of 64, an @, a domain of 253
EMPTY_SLOTS = b" " * (SLOTS * SLOT_BYTES)


def padding(text_bytes: int) -> bytes:
    """Return what makes a row of ``FILLER`` and that much text keep ``LOCAL_BYTES`` in the b-tree page."""
    return bytes((_AIM_BYTES - text_bytes) % OVERFLOW_BYTES)


def slot(inbox_id: int) -> tuple[int, int]:
    """Return the row and the offset at which the address of an inbox stands: twelve share an overflow page."""
    return inbox_id // SLOTS, inbox_id % SLOTS * SLOT_BYTES
