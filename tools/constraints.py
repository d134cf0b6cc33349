"""Pins the dependencies from pyproject.toml in constraints/: exact versions and file hashes, for Python 3.11 and newer.

Each file includes the previous file and adds the dependencies of:

    build.txt    building tmpmaild and the libraries that PyPI provides only as source
    run.txt      the service, the commands and the client
    service.txt  storage.url and senders.resolver; the Debian package and the container contain everything up to here
    extras.txt   the MCP server and the pytest plugin's certificates; the SBOM lists everything up to here
    dev.txt      make test, make check
    proofs.txt   make proof, make release

``pip install --require-hashes -r`` installs the pins of a file. This program resolves versions with uv, in its own
venv.

python tools/constraints.py            uses the newest versions of all libraries
python tools/constraints.py --keep     keeps the pinned versions, and adds new dependencies in pyproject.toml
"""

import argparse
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "constraints"
OLDEST_PYTHON: Final = "3.11"
_SERVICE: Final = ("client", "dns", "postgresql", "senders")
LAYERS: Final = {
    "build": (),
    "run": ("client", "dns"),
    "service": _SERVICE,
    "extras": (*_SERVICE, "mcp", "tls"),
    "dev": (*_SERVICE, "mcp", "tls", "dev"),
    "proofs": (*_SERVICE, "mcp", "tls", "dev", "proofs"),
}
"""The files in order, each with the extras that it covers; the first file covers ``_BUILDS``."""
_BUILDS: Final = """\
hatchling>=1.27
editables>=0.5   # needed by hatchling for pip install --editable
setuptools>=80   # needed by dkimpy and pyspf, which PyPI provides only as source
"""
_HEADER: Final = "# Generated from pyproject.toml by tools/constraints.py.\n"
_ENTRY: Final = re.compile(r"^[A-Za-z0-9].*(?:\n .*)*\n", re.MULTILINE)
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)


def pins(*files: Path) -> dict[str, str]:
    """Return each library's version by normalized name, read from these files or, by default, from all files."""
    texts = [path.read_text("utf-8") for path in files or sorted(FOLDER.glob("*.txt"))]
    return {normal(name): version for text in texts for name, version in _PIN.findall(text)}


def requirements(layer: str, *, only: Sequence[str] = (), without: Sequence[str] = ()) -> str:
    """Return the pins and hashes in a file and its predecessors as one text, for all libraries or only some of them."""
    layers = list(LAYERS)
    names = layers[: layers.index(layer) + 1]
    found = [pin for name in names for pin in _ENTRY.findall((FOLDER / f"{name}.txt").read_text("utf-8"))]
    named = [(pin, normal(pin.partition("==")[0])) for pin in found]
    return "".join(pin for pin, name in named if (name in only or not only) and name not in without)


def normal(name: str) -> str:
    """Return the normalized name of a library."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _layers(uv: list[str], kept: Path, scratch: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each file's name and the pins that no earlier file contains. ``kept`` constrains the versions."""
    builds = scratch / "build.in"
    builds.write_text(_BUILDS, encoding="utf-8")
    newest = scratch / "all.txt"
    everything = [builds, ROOT / "pyproject.toml"]
    newest.write_text("".join(_compiled(uv, everything, LAYERS["proofs"], kept)), encoding="utf-8")
    seen: set[str] = set()
    for name, extras in LAYERS.items():
        found = _compiled(uv, everything if name != "build" else [builds], extras, newest)
        yield name, [one for one in found if one not in seen]
        seen |= set(found)


def _compiled(uv: list[str], sources: Iterable[Path], extras: Iterable[str], limits: Path) -> list[str]:
    """Resolve the dependencies; return each pin followed by its hash lines."""
    named = [word for extra in extras for word in ("--extra", extra)]
    options = ("--universal", "--generate-hashes", "--python-version", OLDEST_PYTHON, "--no-header", "--no-annotate")
    command: list[str | Path] = [*uv, "pip", "compile", "--quiet", *options, "--constraint", limits, *named, *sources]
    done = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")  # noqa: S603 - no untrusted input
    return _ENTRY.findall(done.stdout)


def main() -> None:
    """Resolve the dependencies and write the files."""
    parser = argparse.ArgumentParser(description="Pin what pyproject.toml allows.")
    parser.add_argument("--keep", action="store_true", help="keep the versions that are already pinned")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        venv.create(scratch / "venv", with_pip=True)
        python = f"{scratch}/venv/bin/python"
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", "uv"], check=True)  # noqa: S603 - no untrusted input
        kept = scratch / "kept.txt"
        old = pins() if given.keep else {}
        kept.write_text("".join(f"{library}=={version}\n" for library, version in old.items()), encoding="utf-8")
        before = ""
        for layer, found in _layers([python, "-m", "uv"], kept, scratch):
            first = f"-r {before}.txt\n" if before else ""
            (FOLDER / f"{layer}.txt").write_text(_HEADER + first + "".join(found), encoding="utf-8")
            before = layer
    sys.stdout.write("".join(f"{library}=={version}\n" for library, version in sorted(pins().items())))


if __name__ == "__main__":
    main()
