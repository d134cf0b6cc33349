"""When run as root, every command switches to the owner of the database folder before opening the database."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tmpmaild.errors import StartError
from tmpmaild.host import process

NOBODY = 65534
KEPT = 1 << 2 | 1 << 10  # CAP_DAC_READ_SEARCH, CAP_NET_BIND_SERVICE

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def tmp_path():
    """Return a folder with a short path: the path of a Unix socket is limited to 107 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def state(tmp_path):
    """Return a folder owned by the service's user in a folder that only root may enter, as systemd creates it."""
    (tmp_path / "private").mkdir(mode=0o700)
    folder = tmp_path / "private" / "tmpmaild"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    config = tmp_path / "tmpmaild.toml"
    config.touch(mode=0o600)
    config.write_text(f'[storage]\npath = "{folder}/tmpmaild.db"\n')
    return folder


def owners(folder):
    return {(file.name, file.stat().st_uid) for file in folder.iterdir()}


def test_migrate_leaves_no_file_owned_by_root(command, state):
    assert command("migrate").returncode == 0
    assert owners(state) == {("tmpmaild.db", NOBODY), ("tmpmaild.db.lock", NOBODY)}
    assert command("check-config").stdout == "tmpmaild.toml: ok\n"
    assert command("postmaster").stdout == "no mail for postmaster or abuse\n"
    assert {owner for _, owner in owners(state)} == {NOBODY}


@pytest.mark.cold  # the daemon must be able to import modules after it has switched to the owner
def test_a_daemon_serves_as_the_owner_and_keeps_two_rights(start, command, state):
    daemon = start()
    status = Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="utf-8").splitlines()
    found = dict(line.split(":", 1) for line in status)
    assert set(found["Uid"].split()) == {str(NOBODY)}
    assert "0" not in found["Gid"].split() + found["Groups"].split()
    own = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    for kind in ("CapEff", "CapPrm"):
        assert int(found[kind], 16) == KEPT & int(own["CapPrm"], 16)
    assert int(found["CapInh"], 16) == 0
    address = daemon.create()
    with daemon.smtp() as client:
        client.sendmail("a@example.com", [address, "postmaster"], b"Subject: hello\r\n\r\nmail\r\n")
    assert "hello" in command("postmaster").stdout
    assert command("status").stdout.startswith("tmpmaild ")
    assert command("backup", "copy.db").returncode == 0
    assert (daemon.folder / "copy.db").stat().st_uid == 0
    assert {owner for _, owner in owners(state)} == {NOBODY}
    daemon.process.kill()
    daemon.process.wait()
    assert "hello" in command("postmaster").stdout
    assert command("migrate").returncode == 0
    assert {owner for _, owner in owners(state)} == {NOBODY}


def test_restore_creates_files_that_the_services_user_can_open(start, command, state):
    daemon = start()
    address = daemon.create()
    daemon.deliver_raw(address, b"Subject: kept\r\n\r\n")
    copy = state.parent.parent / "tmpmaild.copy"  # only root may read files in this folder
    assert command("backup", copy).returncode == 0
    refused = command("restore", copy)
    assert (refused.returncode, "in use by another tmpmaild" in refused.stderr) == (1, True)
    daemon.stop()
    for file in state.iterdir():
        file.unlink()
    done = command("restore", copy)
    assert (done.returncode, done.stderr) == (0, "tmpmaild: configuration: tmpmaild.toml\n")
    assert done.stdout == (
        f"{state}/tmpmaild.db: restored, with 1 inbox and 1 message; start the service: systemctl start tmpmaild\n"
    )
    assert {owner for _, owner in owners(state)} == {NOBODY}
    assert [message["subject"] for message in start().messages(address)] == ["kept"]


def test_a_folder_for_the_service_is_created_like_systemd_does(tmp_path):
    folder = tmp_path / "tmpmaild"
    for _ in range(2):
        process.make_state_folder(folder, tmp_path)
    assert (folder.readlink(), oct(folder.stat().st_mode & 0o777)) == (Path("private/tmpmaild"), "0o700")
    assert oct((tmp_path / "private").stat().st_mode & 0o777) == "0o700"
    process.make_state_folder(tmp_path / "elsewhere/tmpmaild", tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "other").touch()
    with pytest.raises(StartError, match="cannot be created: Not a directory"):
        process.make_state_folder(tmp_path / "other" / "private" / "x", tmp_path / "other" / "private")


def test_a_command_of_a_third_user_is_refused_even_if_it_can_open_the_socket(start, state):
    with tempfile.TemporaryDirectory() as public:
        path = Path(public) / "control.sock"
        os.chown(public, NOBODY, NOBODY)
        start(TMPMAILD_CONTROL__LISTEN=f"unix:{path}")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o666)
        Path(public).chmod(0o755)
        asking = (
            # That user may be unable to read Python's files, so the process switches user after Python has started.
            "import os, socket; os.setgroups([]); os.setgid(1); os.setuid(1); s = socket.socket(socket.AF_UNIX); "
            f"s.connect({str(path)!r}); print(s.makefile(encoding='utf-8').readline())"
        )
        done = subprocess.run([sys.executable, "-Ic", asking], capture_output=True, check=True)
    assert json.loads(done.stdout) == {
        "error": f"commands are accepted from root and from user {NOBODY}, not from user 1"
    }


def test_a_reload_can_read_files_that_only_root_may_read(start, command, state, tmp_path):
    daemon = start()
    config = tmp_path / "tmpmaild.toml"
    config.write_text('domains = ["one.test"]\n' + config.read_text())
    assert config.stat().st_mode & 0o777 == 0o600
    assert command("reload").stdout == "reloaded\n"
    assert daemon.request("/api/v1/domains").json["domains"] == ["one.test"]


def test_a_folder_owned_by_root_changes_nothing(command, tmp_path):
    assert command("migrate").returncode == 0
    assert {owner for name, owner in owners(tmp_path) if name.startswith("tmpmaild.db")} == {0}
