"""Any file name that a sender declares is converted to a name that is safe to display and to save to."""

import pytest

from tmpmaild.mail import filenames


@pytest.mark.parametrize(
    ("stated", "shown"),
    [
        ("認" * 94 + ".pdf", "認" * 83 + ".pdf"),
        ("invoice.pdf" + " " * 300 + ".exe", "invoice.pdf .exe"),
        ("a" * 300, "a" * 255),
        ("a." + "b" * 300, "a." + "b" * 253),
        (("a" * 100 + ".") * 3 + "tar.gz", (("a" * 100 + ".") * 3)[:252] + ".gz"),
        ("a" * 252 + ".gz", "a" * 252 + ".gz"),
    ],
)
def test_a_long_file_name_keeps_its_last_extension(stated, shown):
    assert filenames.clean(stated) == shown


@pytest.mark.parametrize(
    ("stated", "shown"),
    [
        ("a.txt", "a.txt"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\a.txt", "a.txt"),
        ("dir/", ""),
        (".", ""),
        ("..", ""),
        (" . . ", ""),
        (".profile", ".profile"),
        ("a\x1b\n\x85b", "a   b"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("\ud800x", "x"),
        pytest.param("ä" * 200, "ä" * 127, id="ä * 200"),
    ],
)
def test_a_filename_is_safe_to_show_and_to_save_under(stated, shown):
    assert filenames.clean(stated) == shown
