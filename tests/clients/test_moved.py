"""The suites in tests/moved for MailDev, Mailpit and MailHog, migrated to tmpmaild by following docs/coming-from.md."""

import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOVED = ROOT / "tests/moved"


@pytest.fixture
def moved(example, client):
    """Return a project that contains the migrated suites and nodemailer, which their application uses to send mail."""
    folder = example()
    (folder / "node_modules/nodemailer").symlink_to(client / "node_modules/nodemailer")
    for path in [MOVED / "shop.mjs", *MOVED.glob("*-after.test.*")]:
        shutil.copy(path, folder)
    return folder


def test_the_suites_moved_from_maildev_and_mailhog_pass(node, moved):
    suites = ("maildev-after.test.mjs", "mailhog-after.test.cjs")
    said = node("node", "--test", "--test-reporter=tap", *suites, cwd=moved)
    assert "# pass 9\n# fail 0\n" in said


def test_the_suite_moved_from_mailpit_passes(node, moved):
    said = node("sh", "-c", "exec node node_modules/vitest/vitest.mjs run 2>&1 mailpit", cwd=moved, NO_COLOR="1")
    assert re.search(r"Tests +5 passed", said)
