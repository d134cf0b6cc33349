"""``tmpmaild_dns``: the example on its page, and errors."""

import re
import sys
from pathlib import Path

import pytest

from tmpmaild.pytest_plugin import embedded
from tmpmaild.pytest_plugin.embedded import NoService

PAGE = (Path(__file__).parents[2] / "docs/testing/senders.md").read_text()
INI, ZONES, SHOP, TEST, FAILURE, *_ = re.findall(r"```\w+\n(.*?)```", PAGE, re.DOTALL)
OTHER_KEY = Path(__file__).parent.joinpath("suites/zones_other_key.py").read_text()


def test_the_example_on_the_page_passes_and_fails_as_documented(run, tmp_path):
    (tmp_path / "zones.txt").write_text(ZONES)
    (tmp_path / "shop.py").write_text(SHOP)
    status, text = run(tests=TEST + OTHER_KEY, ini=f"{INI.partition(chr(10))[2]}pythonpath = .\n")
    assert (status, "1 failed, 1 passed" in text) == (1, True), text
    for line in FAILURE.splitlines():
        assert line in text


def _mistake(zone_file):
    with pytest.raises(NoService) as caught:
        embedded.served_zones(zone_file)
    return str(caught.value)


def test_mistakes_in_the_file_are_reported(tmp_path, monkeypatch):
    file = tmp_path / "zones.txt"
    assert _mistake(file).startswith(f"tmpmaild_dns: {file}: ")
    file.write_text("shop.example. 60 IN TXT\n")
    assert _mistake(file).startswith(f"tmpmaild_dns: {file}: ")
    monkeypatch.setitem(sys.modules, "dns.exception", None)
    assert _mistake(file) == "tmpmaild_dns needs pip install 'dkimpy[ed25519]' dnspython publicsuffixlist pyspf"
