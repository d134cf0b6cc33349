"""Pins anew, in constraints.txt, what pyproject.toml allows: the newest of everything in a venv of its own.

python tools/constraints.py
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
HEADER: Final = "# Made by tools/constraints.py of pyproject.toml. Exact versions that the tests passed with.\n"


def main() -> None:
    """Install, and write what that was."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", f"{ROOT}[client,dev,proofs]"], check=True)  # noqa: S603 - our own words
        frozen = subprocess.run([*pip, "freeze", "--exclude", "tmpmaild"], check=True, capture_output=True, text=True)  # noqa: S603
    (ROOT / "constraints.txt").write_text(HEADER + frozen.stdout)
    sys.stdout.write(frozen.stdout)


if __name__ == "__main__":
    main()
