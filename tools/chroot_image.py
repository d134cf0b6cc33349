"""Builds the image described by Containerfile without a registry, and runs it; needs root and debootstrap.

FROM creates a fresh Debian with Python, and RUN runs a command in a chroot. As with a container engine, the daemon runs
in its own namespaces: as process 1, as a user without capabilities, with its own loopback device, and with a root that
is read-only except for the volume.

    python tools/chroot_image.py FOLDER      builds the image in FOLDER and runs it until ctrl-C
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SUITES: Final = ("bookworm", "trixie")  # Debian 12, which replaces the image in Containerfile, and Debian 13
PYTHON: Final = ("ca-certificates", "python3", "python3-venv")
PROGRAMS: Final = ("debootstrap", "unshare", "nsenter", "setpriv", "chroot", "ip")
# Files on this machine that a fresh Debian needs in order to reach the package registries.
_REACHING: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
_CONFIGURES: Final = ("EXPOSE", "VOLUME", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD", "USER", "WORKDIR", "ENV")


@dataclass
class Image:
    """A stage of the Containerfile: its folder, and the last value of each instruction that configures the image."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    def words(self, name: str) -> list[str]:
        """Return the exec form of an instruction."""
        words: list[str] = json.loads(self.settings.get(name, "[]"))
        return words

    @property
    def health_command(self) -> list[str]:
        """Return the command of HEALTHCHECK."""
        words: list[str] = json.loads(self.settings["HEALTHCHECK"].partition("CMD ")[2])
        return words

    @property
    def user(self) -> str:
        """Return the numeric user id and group id."""
        return self.settings.get("USER", "0:0")


def missing() -> str:
    """Return the reason why this machine cannot build an image, or "" if it can."""
    if os.geteuid() != 0:
        return "needs root"
    absent = [name for name in PROGRAMS if not shutil.which(name, path=_PATH)]
    return f"needs {', '.join(absent)} (Debian packages debootstrap, util-linux, iproute2)" if absent else ""


def debian(packages: Sequence[str] = PYTHON, suite: str = SUITES[0]) -> Path:
    """Return the folder of a fresh Debian with these packages, built once and kept in the user's cache."""
    name = hashlib.sha256(" ".join(sorted(packages)).encode()).hexdigest()[:12]
    kept = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / f"tmpmaild/{suite}-{name}"
    if not kept.exists():
        making = kept.with_suffix(f".{os.getpid()}")
        fetched = making.with_name("packages")
        fetched.mkdir(parents=True, exist_ok=True)
        options = ("--variant=minbase", f"--cache-dir={fetched}", f"--include={','.join(packages)}")
        _run("debootstrap", *options, suite, making)
        for path in filter(os.path.exists, _REACHING):
            shutil.copyfile(path, f"{making}{path}")
        making.rename(kept)
    return kept


def variables() -> list[str]:
    """Return the environment variables that pip and npm need to reach their registries, as ``NAME=value``."""
    return [f"{name}={value}" for name, value in os.environ.items() if name.startswith(("PIP_", "NODE_EXTRA_", "NPM_"))]


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction of a Containerfile and its arguments."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            instruction, _, rest = line.partition(" ")
            yield instruction, rest.strip()


def build(containerfile: Path, folder: Path) -> Image:
    """Perform the steps of a Containerfile; return the last stage, whose files are in ``folder``."""
    stages: dict[str, Image] = {}
    image = Image(folder)
    for instruction, rest in steps(containerfile.read_text(encoding="utf-8")):
        if instruction == "FROM":
            _, _, name = rest.partition(" AS ")
            image = stages[name or str(len(stages))] = Image(folder / (name or str(len(stages))))
            _run("cp", "--archive", debian(), image.folder)
        elif instruction == "COPY":
            _copy(rest, containerfile.parent, stages, image)
        elif instruction == "RUN":
            _run(*_entered(image), "sh", "-c", rest)
        elif instruction in _CONFIGURES:
            _configure(image, instruction, rest)
        else:
            raise ValueError(f"{containerfile}: {instruction} is not known here")
    return image


def run_command(image: Image, volume: Path) -> list[str]:
    """Return the command that runs an image's daemon as process 1, with a folder as its first volume."""
    root, (mounted,) = image.folder, image.words("VOLUME")
    _run("chown", image.user, volume)
    mounts = [
        "ip link set lo up",
        f"mount --bind {root} {root}",
        f"mount -o remount,bind,ro {root}",
        f"mount --bind {volume} {root}{mounted}",
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
    ]
    daemon = [*_as_user(image, root), *image.words("ENTRYPOINT"), *image.words("CMD")]
    script = " && ".join([*map(str, mounts), f"exec {shlex.join(daemon)}"])
    return ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", script]


def exec_command(image: Image, pid: int, *command: str) -> list[str]:
    """Return the command that runs a given command in a container whose process 1 has the id ``pid`` on the host."""
    inside = ["nsenter", f"--target={pid}", "--mount", "--net", "--pid"]
    return [*inside, *_as_user(image, image.folder), *command]


def _configure(image: Image, instruction: str, rest: str) -> None:
    if instruction == "ENV":
        name, _, value = rest.partition("=")
        image.env[name] = value
    elif instruction == "WORKDIR":
        (image.folder / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
    image.settings[instruction] = rest


def _copy(rest: str, context: Path, stages: dict[str, Image], image: Image) -> None:
    *options, target = rest.split()
    source = context
    if options[0].startswith("--from="):
        source = stages[options.pop(0).removeprefix("--from=")].folder
    place = os.path.join(image.settings.get("WORKDIR", "/"), target)  # noqa: PTH118 - handles absolute targets
    for name in options:
        path = source / name.lstrip("/")
        into = f"{image.folder}{place}"
        _run("cp", "--archive", "--no-target-directory" if path.is_dir() else "--", path, into)


def _entered(image: Image) -> list[str]:
    """Return the prefix for a command that runs as root in a stage, with this machine's network."""
    inside = ["chroot", str(image.folder), "env", f"--chdir={image.settings.get('WORKDIR', '/')}", *variables()]
    script = 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && shift && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh", str(image.folder), *inside]


def _as_user(image: Image, root: Path) -> list[str]:
    uid, _, gid = image.user.partition(":")
    rights = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "--bounding-set=-all"]
    place = ["env", "--ignore-environment", f"--chdir={image.settings.get('WORKDIR', '/')}"]
    return ["chroot", str(root), "setpriv", *rights, *place, *[f"{name}={value}" for name, value in image.env.items()]]


def _run(*command: str | Path) -> None:
    words = list(map(str, command))
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")  # noqa: S603 - ours
    if done.returncode:
        raise RuntimeError(f"{shlex.join(words)}\n{done.stdout[-4000:]}")


_PATH: Final = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

if __name__ == "__main__":
    if reason := missing():
        sys.exit(reason)
    folder = Path(sys.argv[1]).resolve()
    (folder / "volume").mkdir(parents=True, exist_ok=True)
    container = run_command(build(ROOT / "Containerfile", folder), folder / "volume")
    subprocess.run(container, check=False)  # noqa: S603 - no untrusted input
