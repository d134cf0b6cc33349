"""Where text is stored in a table, so that deleting it leaves no copy behind.

``secure_delete`` zeroes what is deleted in place. But when deletes leave a b-tree page two thirds empty, SQLite moves
the neighbouring rows to fewer pages, and copies of earlier rows stay in the unused parts of rewritten pages: after half
of 20,000 mixed mails had expired, 25 of them could still be read in the file. Overflow pages are never merged or split,
are copied within the file only as a whole, and are zeroed when freed. So a row with text begins with a filler as long
as the part of the row that is in the b-tree page, and all text is in overflow pages.

The numbers are those of the file format (https://www.sqlite.org/fileformat2.html#b_tree_pages, "payload"): of a
row of P octets, with U octets usable in a page, the b-tree page holds K = M + (P - M) mod (U - 4) octets if that
is at most U - 35, else M.
"""

PAGE_BYTES = 4096
LOCAL_BYTES = (PAGE_BYTES - 12) * 32 // 255 - 23  # M: 489
OVERFLOW_BYTES = PAGE_BYTES - 4
FILLER = bytes(LOCAL_BYTES)

# In the last 519 octets before the overflow pages are exactly full, K is above U - 35, so the page holds M octets. The
# header and the numbers of a row are not counted; they take between 30 and 120 octets.
_AIM_BYTES = OVERFLOW_BYTES - 300

# What a mail takes in b-trees: some 490 octets in a page of content, which deleting may leave two thirds empty before
# SQLite merges it with its neighbours, and the rows of the message and of its indexes.
_ROW_BYTES = 1536
_POINTER_BYTES = 5  # for each page, in the pointer map of a file with auto_vacuum
_PAGE_COST_BYTES = PAGE_BYTES + _POINTER_BYTES

LEAST_STORED_BYTES = _ROW_BYTES + _PAGE_COST_BYTES
"""What the smallest mail takes in the file."""

SLOTS = 12
SLOT_BYTES = 320  # a local part of 64, an @, a domain of 253
EMPTY_SLOTS = b" " * (SLOTS * SLOT_BYTES)


def padding(text_bytes: int) -> bytes:
    """Return the padding with which a row of ``FILLER`` and that much text has ``LOCAL_BYTES`` in the b-tree page."""
    return bytes((_AIM_BYTES - text_bytes) % OVERFLOW_BYTES)


def stored_bytes(padded_bytes: int) -> int:
    """Return what a row with that much text and padding takes in the file at most, with its messages and indexes."""
    overflow_pages = padded_bytes // OVERFLOW_BYTES + 1
    return _ROW_BYTES + overflow_pages * _PAGE_COST_BYTES


def slot(inbox_id: int) -> tuple[int, int]:
    """Return the row and the offset of the address of an inbox: twelve share an overflow page."""
    return inbox_id // SLOTS, inbox_id % SLOTS * SLOT_BYTES
