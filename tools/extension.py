"""Packages the browser extension for the stores: a reproducible archive for each browser.

python tools/extension.py FOLDER     writes tmpmaild-VERSION-chromium.zip and tmpmaild-VERSION-firefox.zip to FOLDER
"""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "clients/browser"
_NOT_PACKED: Final = ("store",)
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = 0o100644 << 16
_OF_OTHERS: Final = {"chromium": ("background", "scripts"), "firefox": ("background", "service_worker")}
"""The key for the background script that each browser supports; its store warns about the other browser's key."""


def manifest(browser: str, source: Path = SOURCE) -> dict[str, Any]:
    """Return the manifest for this browser's store."""
    made: dict[str, Any] = json.loads((source / "manifest.json").read_text("utf-8"))
    section, key = _OF_OTHERS[browser]
    del made[section][key]
    if browser == "chromium":
        del made["browser_specific_settings"]
    return made


def files(browser: str, source: Path = SOURCE) -> dict[str, bytes]:
    """Return the archive's files by name."""
    paths = (path for path in source.rglob("*") if path.is_file())
    named = {path.relative_to(source).as_posix(): path.read_bytes() for path in paths}
    packed = {name: content for name, content in named.items() if name.partition("/")[0] not in _NOT_PACKED}
    return packed | {"manifest.json": json.dumps(manifest(browser, source), indent=2).encode()}


def build(target: Path, source: Path = SOURCE) -> list[Path]:
    """Write the archives to a folder; return their paths."""
    version = json.loads((source / "manifest.json").read_text("utf-8"))["version"]
    return [_packed(target / f"tmpmaild-{version}-{browser}.zip", files(browser, source)) for browser in _OF_OTHERS]


def _packed(path: Path, content: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(content):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = _MODE
            archive.writestr(entry, content[name], zipfile.ZIP_DEFLATED)
    return path


if __name__ == "__main__":
    for built in build(Path(sys.argv[1])):
        sys.stdout.write(f"{built}\n")
