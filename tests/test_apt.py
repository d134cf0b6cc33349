"""Debian's own apt accepts the package repository, set up as documented, but only with its signature."""

import functools
import http.server
import os
import re
import subprocess
import threading
from pathlib import Path

import apt
import pytest

OPERATIONS = (Path(__file__).parents[1] / "docs/operations.md").read_text()
CONTROL = Path(__file__).with_name("apt-control.txt").read_text()

pytestmark = pytest.mark.needs("apt", "gpg")


@pytest.fixture
def key(tmp_path, monkeypatch):
    (home := tmp_path / "gnupg").mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    run("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "ada@example.com", "ed25519", "sign")
    yield "ada@example.com"
    run("gpgconf", "--kill", "all")


def run(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def package(folder, version, architecture):
    (control := folder / f"{version}-{architecture}/DEBIAN").mkdir(parents=True)
    (control / "control").write_text(CONTROL.format(version=version, architecture=architecture))
    run("dpkg-deb", "--root-owner-group", "--build", control.parent, folder)


@pytest.fixture
def url(tmp_path):
    """Serve the repository as an ordinary web server does."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "dist/apt"))
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def apt_get(tmp_path, url):
    """Return a function that calls apt as on a machine whose only package source is the documented one."""
    (source,) = re.findall(r"^(Types: deb\n.*?)^END", OPERATIONS, re.MULTILINE | re.DOTALL)
    root = tmp_path / "machine"
    for name in ("lists/partial", "cache/archives/partial", "sources.list.d", "parts"):
        (root / name).mkdir(parents=True)
    (root / "status").touch()
    keyring = root / "tmpmaild.asc"
    text = source.replace("https://apt.example.org", url).replace("/etc/apt/keyrings/tmpmaild.asc", str(keyring))
    assert str(keyring) in text
    (root / "sources.list.d/tmpmaild.sources").write_text(text)
    places = {
        "State::lists": root / "lists",
        "State::status": root / "status",
        "Cache": root / "cache",
        "Etc::sourcelist": "/dev/null",
        "Etc::sourceparts": root / "sources.list.d",
        "Etc::parts": root / "parts",
        "Etc::main": "/dev/null",
    }
    options = [f"-oDir::{name}={place}" for name, place in places.items()]
    options += ["-oAPT::Architecture=arm64", "-oAPT::Sandbox::User=root", "-oAcquire::http::Proxy=DIRECT"]

    def apt_get(*arguments, check=True):
        keyring.write_bytes((tmp_path / "dist/apt/tmpmaild.asc").read_bytes())
        return run("apt-get", *options, *arguments, check=check)

    return apt_get


def test_apt_selects_the_newest_package_for_its_architecture(tmp_path, key, apt_get):
    dist = tmp_path / "dist"
    for version in ("1.0", "1.1"):
        for architecture in apt.ARCHITECTURES:
            package(dist, version, architecture)
    first = apt.build(dist, dist / "apt", key)
    os.utime(first / "dists/stable/InRelease", (0, 0))  # the server reports the modification time in whole seconds
    apt_get("update", "--error-on=any")
    said = apt_get("install", "--print-uris", "--yes", "tmpmaild").stdout
    assert "/pool/tmpmaild_1.1_arm64.deb" in said
    package(dist, "1.2", "arm64")
    apt.build(dist, dist / "apt", key)
    apt_get("update", "--error-on=any")
    assert "/pool/tmpmaild_1.2_arm64.deb" in apt_get("install", "--print-uris", "--yes", "tmpmaild").stdout


def test_files_changed_after_signing_are_refused(tmp_path, key, apt_get):
    dist = tmp_path / "dist"
    package(dist, "1.0", "arm64")
    release = apt.build(dist, dist / "apt", key) / "dists/stable/InRelease"
    release.write_text(release.read_text().replace("Label: tmpmaild", "Label: another"))
    done = apt_get("update", "--error-on=any", check=False)
    assert done.returncode != 0
    assert "signature" in done.stderr.lower()
