"""The control socket: its permissions, its responses to valid and invalid requests, and its path."""

import asyncio
import os
import socket
import stat
import tempfile
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import Struct

from tmpmaild.cli import control
from tmpmaild.config.settings import Config, Control, Storage
from tmpmaild.errors import CommandError, StartError
from tmpmaild.host import control as controlsocket
from tmpmaild.host.control import Command, ControlServer, NoArguments, Octets


class Wanted(Struct, forbid_unknown_fields=True):
    number: int


class Line(Struct):
    said: str


async def count(wanted):
    for number in range(wanted.number):
        yield Line(str(number))


async def enumerate_all(wanted):
    for number in range(wanted.number):
        yield Line(f"{number:100}")


async def refuse(_):
    yield Line("begun")
    raise CommandError("not today")


async def break_down(_):
    raise ZeroDivisionError
    yield


async def hand_over(_):
    yield Octets(200_000)
    for _ in range(2):
        yield b"x" * 100_000


async def flood(_):
    while True:
        yield b"x" * 100_000


async def wait_for_ever(_):
    yield Line("waiting")
    await asyncio.Event().wait()


async def hang_up(_):
    yield Line("begun")
    (writer,) = CLIENTS
    writer.transport.abort()
    for _ in range(100):  # the service detects the closed connection long before the last iteration
        await asyncio.sleep(0)
    yield Line("done")


CLIENTS = []
COMMANDS = {
    "count": Command(Wanted, count),
    "list": Command(Wanted, enumerate_all),
    **{
        work.__name__: Command(NoArguments, work)
        for work in (refuse, break_down, hand_over, flood, wait_for_ever, hang_up)
    },
}


def config_of(folder, **control):
    return Config(storage=Storage(path=str(folder / "mail.db")), control=Control(**control))


@pytest.fixture
def config(tmp_path):
    return config_of(tmp_path)


@asynccontextmanager
async def serving(config, environ=(), **settings):
    with controlsocket.bound(config, dict(environ)) as listener:
        server = ControlServer(COMMANDS, **settings)
        await server.start(listener)
        try:
            yield server
        finally:
            await server.stop()


@pytest.fixture
async def server(config):
    async with serving(config) as running:
        yield running


async def ask(config, *request):
    return await asyncio.to_thread(control.call, config, *request)


def take_octets(config):
    with control.request(config, "hand_over") as answer:
        return [sum(map(len, answer.read_bytes(line["octets"]))) for line in answer.lines()]


async def begun(config, octets, **options):
    """Connect and send these bytes; return the connection."""
    reader, writer = await asyncio.open_unix_connection(controlsocket.path_of(config), **options)
    writer.write(octets)
    return reader, writer


async def say(config, octets):
    """Send bytes, and return the whole response."""
    reader, writer = await begun(config, octets)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.both_loops
async def test_a_command_returns_lines_and_bytes(config, server):
    assert await ask(config, "count", {"number": 2}) == [{"said": "0"}, {"said": "1"}]

    assert await asyncio.to_thread(take_octets, config) == [200_000]


async def test_a_failure_of_the_caller_is_not_an_error_of_the_service(config, server):
    """For example, ``tmpmaild inboxes | head`` closes the command's output while the command reads the response."""

    def write_to_a_closed_pipe():
        with control.request(config, "count", {"number": 2}) as answer:
            for _ in answer.lines():
                raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await asyncio.to_thread(write_to_a_closed_pipe)


async def test_errors_are_reported_in_one_line(config, server, caplog):
    refused = {
        ("refuse",): "not today",
        ("break_down",): "internal error of the service; see its log",
        ("unknown",): "this service is tmpmaild",
        ("count",): "missing required field `number`",
        ("count", (("number", "many"),)): "Expected `int`",
        ("count", (("number", 1), ("more", 1))): "unknown field `more`",
        ("refuse", (("number", 1),)): "unknown field `number`",
    }
    for (command, *arguments), says in refused.items():
        with pytest.raises(CommandError, match=says):
            await ask(config, command, *map(dict, arguments))
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize(
    "octets",
    [
        b"\n",
        b"\x00\xff\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"{}\n",
        b'{"command": "\xff"}\n',
        b"null\n",
        b"[" * 60_000 + b"\n",
    ],
)
async def test_garbage_is_refused(config, server, octets):
    answer = await say(config, octets)
    assert answer.startswith(b'{"error":"')
    assert answer.count(b"\n") == 1


async def test_an_endless_line_is_refused_and_an_incomplete_line_is_ignored(config, server):
    with pytest.raises(CommandError, match="at most 65536 bytes"):
        await ask(config, "x" * 10_000_000)
    assert await say(config, b'{"command"') == b""
    assert await say(config, b"") == b""


async def test_clients_beyond_the_limit_get_an_error(config, server):
    waiting = [await begun(config, b'{"command":"wait_for_ever"}\n') for _ in range(16)]
    for reader, _ in waiting:
        assert await reader.readline() == b'{"said":"waiting"}\n'
    with pytest.raises(CommandError, match="16 commands are already running"):
        await ask(config, "count", {"number": 1})
    for _, writer in waiting:
        writer.close()


async def test_two_hundred_silent_connections_block_others_only_briefly(config, server, monkeypatch):
    with monkeypatch.context() as impatient:
        impatient.setattr("tmpmaild.host.control._REQUEST_SECONDS", 0.1)
        silent = [await begun(config, b"") for _ in range(200)]
        assert all([await reader.read() is not None for reader, _ in silent])
    assert await ask(config, "count", {"number": 1}) == [{"said": "0"}]
    for _, writer in silent:
        writer.close()


@pytest.mark.both_loops
async def test_a_client_that_disconnects_early_is_not_an_error_of_the_service(config, caplog):
    async with serving(config) as server:
        _, writer = await begun(config, b"")
        CLIENTS[:] = [writer]
        writer.write(b'{"command":"hang_up"}\n')
        while not server._tasks:
            await asyncio.sleep(0)
        assert await asyncio.gather(*server._tasks) == [None]
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


async def test_a_client_that_does_not_read_is_disconnected(config):
    async with serving(config, drain_seconds=0.1) as server:
        _, writer = await begun(config, b'{"command":"flood"}\n')
        while not server._tasks:
            await asyncio.sleep(0)
        await asyncio.gather(*server._tasks)
        writer.close()


@pytest.mark.parametrize("number", [3000, 10_000])
async def test_a_client_that_reads_slowly_gets_all(config, server, number):
    reader, writer = await begun(config, b'{"command":"list","arguments":{"number":%d}}\n' % number, limit=4096)
    while server._tasks and not reader._buffer:
        await asyncio.sleep(0)
    lines = []
    while line := await reader.readline():
        lines.append(line)
        await asyncio.sleep(0)
    assert len(lines) == number + 1
    assert lines[-1] == b'{"done":true}\n'
    writer.close()


async def test_stopping_cancels_running_commands(config):
    async with serving(config):
        reader, writer = await begun(config, b'{"command":"wait_for_ever"}\n')
        await reader.readline()
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(control.NotRunning):
        await ask(config, "count")


def be_user(number, monkeypatch):
    """Simulate a different user for the client, but not for the server in the same process."""
    monkeypatch.setattr(control, "os", SimpleNamespace(**{**vars(os), "geteuid": lambda: number}))


async def test_nothing_is_sent_to_a_server_of_another_user(config, server, monkeypatch):
    be_user(4242, monkeypatch)
    with pytest.raises(CommandError, match="the service should run as user 4242"):
        await ask(config, "count", {"number": 1})


async def test_with_a_database_server_the_owner_of_the_sockets_folder_is_the_user_of_the_service(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir()
    config = Config(
        storage=Storage(url="postgresql://a@b/c"), control=Control(listen=f"unix:{folder / 'control.sock'}")
    )
    async with serving(config):
        assert await ask(config, "count", {"number": 1})
        be_user(0, monkeypatch)
        assert await ask(config, "count", {"number": 1})
        if os.getuid() == 0:
            os.chown(folder, 4242, 4242)
            with pytest.raises(
                CommandError, match="the process there runs as user 0, but the service should run as user 4242"
            ):
                await ask(config, "count", {"number": 1})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of folders")
async def test_the_folder_of_the_database_does_not_determine_the_user_of_the_service(config, tmp_path):
    state = Path(config.storage.path).parent
    os.chown(state, 65534, 65534)  # systemd 257 shows a dynamic user's folder with this owner
    with tempfile.TemporaryDirectory() as runtime:
        async with serving(config, {"RUNTIME_DIRECTORY": runtime}):
            assert await ask(config, "count", {"number": 1}) == [{"said": "0"}]


async def test_only_the_owner_can_open_it_whatever_the_umask(config):
    before = os.umask(0)
    try:
        async with serving(config):
            assert stat.S_IMODE(controlsocket.path_of(config).stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert not controlsocket.path_of(config).exists()


def listen_at(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(os.fspath(path))
    return listener


def test_a_leftover_socket_is_replaced_and_a_socket_in_use_is_not(tmp_path, config, caplog):
    path = controlsocket.path_of(config)
    with listen_at(path):
        pass
    with controlsocket.bound(config, {}) as listener:
        assert listener is not None
        with controlsocket.bound(config, {}) as second:
            assert second is None
        assert "in use by another process" in caplog.text
        named = config_of(tmp_path, listen=f"unix:{path}")
        with pytest.raises(StartError, match="in use by another process"), controlsocket.bound(named, {}):
            pass
        assert path.is_socket()


def test_files_that_are_not_sockets_are_not_removed(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("precious")
    config = Config(control=Control(listen=f"unix:{path}"))
    with pytest.raises(StartError, match="is not a socket"), controlsocket.bound(config, {}):
        pass
    assert path.read_text() == "precious"


async def test_in_a_unit_it_is_in_the_runtime_directory_and_linked_from_the_database_folder(tmp_path):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    config = config_of(folder)
    link = controlsocket.path_of(config)
    for _ in range(2):
        async with serving(config, {"RUNTIME_DIRECTORY": f"{tmp_path}:/elsewhere"}):
            assert link.readlink() == tmp_path / "control.sock"
            assert await ask(config, "count", {"number": 1}) == [{"said": "0"}]
        assert [path.name for path in tmp_path.rglob("*")] == [folder.name]
        link.symlink_to(tmp_path / "control.sock")  # a killed process leaves its link behind


async def test_a_command_of_the_unit_finds_it_although_the_configuration_has_changed(tmp_path, config):
    environ = {"RUNTIME_DIRECTORY": str(tmp_path)}
    for changed in (
        Config(storage=Storage(path="/elsewhere/mail.db")),
        Config(control=Control(listen="unix:/elsewhere/control.sock")),
        Config(control=Control(listen="off")),
    ):
        elsewhere = controlsocket.path_of(changed)
        assert controlsocket.found(changed, environ) == elsewhere
        async with serving(config, environ):
            assert controlsocket.found(changed, environ) == tmp_path / "control.sock"
            assert controlsocket.found(changed, {}) == elsewhere


def test_an_unusable_path_is_reported_by_the_service_and_to_the_command(tmp_path, caplog):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    config = config_of(folder)
    with controlsocket.bound(config, {}) as listener:
        assert listener is None
    assert "longer than 107 bytes; set control.listen" in caplog.text
    with pytest.raises(CommandError):
        control.call(config_of(tmp_path / ("x" * 200)), "count")


def test_it_can_be_switched_off(tmp_path):
    off = config_of(tmp_path, listen="off")
    with controlsocket.bound(off, {}) as listener:
        assert listener is None
    with pytest.raises(control.NotRunning, match="off"):
        control.call(off, "count")


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b'{"said":', b"[]\n", b'{"octets": 5}\nabc']
)
def test_an_unknown_response_is_reported_in_one_line(config, said):
    with listen_at(controlsocket.path_of(config)) as listener:
        listener.listen()

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(CommandError):
            take_octets(config)
        thread.join()


def test_a_command_stops_waiting_for_a_service_that_does_not_respond(config, monkeypatch):
    monkeypatch.setattr(control, "_PATIENCE_SECONDS", 0.1)
    with listen_at(controlsocket.path_of(config)) as listener:
        listener.listen()
        with pytest.raises(CommandError, match="no response within"):
            control.call(config, "count")
