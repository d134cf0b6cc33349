"""Programs that start immediately: forked from a Python process that has already imported their modules.

A forked program behaves like ``python -m tmpmaild`` or ``python -m pytest``, in its own process with its own
environment and folder. Tests of process startup or memory use ``subprocess`` instead.
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import warnings
from pathlib import Path
from subprocess import PIPE

_WIDTH = 1 << 16
_FAILED = 70
_MOST_GIVEN = 10
_HIGH = 1000  # higher than the number of any descriptor in the forking process
# Modules that commands and the service import on demand.
_LOADED = (
    *(
        "tmpmaild.cli.main",
        *(f"tmpmaild.cli.{name}" for name in ("listening", "live", "waiting", "watching")),
        "tmpmaild.daemon",
        "tmpmaild.http.app",
    ),
    *("tmpmaild.storage.sqlite.engine", "anyio._backends._asyncio", "uvloop", "httpcore2", "truststore"),
)


class Program:
    """A running module, with the subset of ``subprocess.Popen``'s interface that tests use."""

    def __init__(
        self,
        arguments,
        *,
        env,
        module="tmpmaild",
        loaded=(),
        cwd=None,
        stdin=0,
        stdout=PIPE,
        stderr=2,
        text=False,
        has_terminal=False,
        ignored=(),
        listeners=None,
    ):
        """Start the module; streams are descriptors or ``PIPE``. With ``has_terminal``, the terminal is standard input.

        The modules ``loaded`` are imported before the fork. ``listeners`` are named sockets, passed in the same way as
        by systemd.
        """
        listeners = listeners or {}
        self.args = list(arguments)
        self.returncode = None
        self.stdin, stdin = _pipe_in(stdin, text)
        self.stdout, stdout = _pipe(stdout, text)
        self.stderr, stderr = _pipe(stderr, text)
        self._ended, ended = os.pipe()
        wish = {"module": module, "loaded": list(loaded), "arguments": self.args, "cwd": str(cwd or Path.cwd())}
        wish |= {"env": env, "has_terminal": has_terminal, "ignored": list(ignored), "listeners": list(listeners)}
        octets = json.dumps(wish).encode()
        assert len(octets) < _WIDTH
        server = _server()
        passed = [listener.fileno() for listener in listeners.values()]
        socket.send_fds(server, [octets], [ended, stdin, stdout, stderr, *passed])
        self.pid = int(server.recv(_WIDTH))
        streams = ((stdin, self.stdin), (stdout, self.stdout), (stderr, self.stderr))
        for descriptor, stream in (*streams, (ended, True)):
            if stream:
                os.close(descriptor)

    def poll(self):
        """Return the exit code, or None while the program runs."""
        return self._look(0)

    def wait(self, timeout=None):
        """Return the exit code once the program has exited.

        Raises ``subprocess.TimeoutExpired`` on timeout.
        """
        if self._look(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def send_signal(self, number):
        """Send a signal unless the program has exited."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """Send SIGKILL unless the program has exited."""
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        """Send SIGTERM unless the program has exited."""
        self.send_signal(signal.SIGTERM)

    def _look(self, seconds):
        if self.returncode is None and select.select([self._ended], [], [], seconds)[0]:
            status = os.read(self._ended, 16)
            os.close(self._ended)
            self.returncode = int(status)
        return self.returncode


def run(arguments, *, env, timeout=60, **more):
    """Run a command to completion without input; return a ``subprocess.CompletedProcess`` with text output."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
        Path(os.devnull).open(encoding="utf-8") as nothing,
    ):
        given = {"stdin": nothing.fileno(), "stdout": out.fileno(), "stderr": err.fileno()}
        program = Program(arguments, env=env, **given, **more)
        try:
            code = program.wait(timeout)
        finally:
            program.kill()
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(program.args, code, out.read(), err.read())


def _pipe_in(wanted, text):
    if wanted != PIPE:
        return None, wanted
    theirs, ours = os.pipe()
    return _stream(ours, "w", text), theirs


def _pipe(wanted, text):
    if wanted != PIPE:
        return None, wanted
    ours, theirs = os.pipe()
    return _stream(ours, "r", text), theirs


def _stream(descriptor, mode, text):
    return os.fdopen(descriptor, mode, encoding="utf-8") if text else os.fdopen(descriptor, f"{mode}b")


@functools.cache
def _server():
    """Return the connection to the process that forks; each test process has one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    theirs.close()
    atexit.register(_end, ours, process)
    return ours


def _end(connection, process):
    connection.close()
    process.wait()


def serve(connection):
    """Fork a program for each request, and report each exit code, until the connection is closed."""
    _load(_LOADED)
    sys.modules["tmpmaild.http.app"]._web_files()  # the files are read and compressed only once
    ended = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests forward Ctrl-C to the programs
    while True:
        ready, _, _ = select.select([connection, woken], [], [])
        if woken in ready:
            os.read(woken, _WIDTH)
            _tell_ends(ended)
        if connection in ready:
            wish, given, _, _ = socket.recv_fds(connection, _WIDTH, _MOST_GIVEN)
            if not wish:
                return
            wish = json.loads(wish)
            _load(wish["loaded"])
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                _become(wish, given)
            ended[pid] = given.pop(0)
            for descriptor in given:
                os.close(descriptor)
            connection.send(str(pid).encode())


def _load(modules):
    if not all(name in sys.modules for name in modules):
        for name in modules:
            importlib.import_module(name)
        gc.collect()
        gc.freeze()


def _tell_ends(ended):
    for pid in list(ended):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            descriptor = ended.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # the test no longer waits for the exit code
                os.write(descriptor, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(descriptor)


def _become(wish, given):
    """Turn this process into the requested program, with only the given descriptors."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _HIGH) for descriptor in given[1:]]
    os.closerange(3, _HIGH)
    for place, descriptor in enumerate(high):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.setsid()
    if wish["has_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in wish["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    stream = functools.partial(open, encoding="utf-8", closefd=False)
    sys.stdin = sys.__stdin__ = stream(0)
    sys.stdout = sys.__stdout__ = stream(1, "w", buffering=1 if os.isatty(1) else -1)
    sys.stderr = sys.__stderr__ = stream(2, "w", errors="backslashreplace", buffering=1)
    os.chdir(wish["cwd"])
    os.environ.clear()
    os.environ.update(wish["env"])
    if names := wish["listeners"]:
        os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(names)), "LISTEN_FDNAMES": ":".join(names)}
    time.tzset()
    sys.path.insert(0, wish["cwd"])  # python -m does the same
    if wish["env"].get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    sys.argv[1:] = wish["arguments"]
    code = _FAILED
    try:
        runpy.run_module(wish["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - the interpreter does the same
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except OSError:
            code = 120  # Python's exit code when it cannot flush a stream
        os._exit(code)


if __name__ == "__main__":
    sys.path.pop(0)  # programs must not import from this folder
    serve(socket.socket(fileno=int(sys.argv[1])))
