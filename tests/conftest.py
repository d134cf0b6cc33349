"""Fixtures for all tests, and the settings of a test run: its event loops, number of workers, and environment."""

import functools
import gc
import os
import shutil
import signal
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import stores
from emptying import emptier
from hypothesis import settings

import clusters
import peers
from daemons import KNOWN, NO_LIMITS, Daemon, is_foreign

# On shared machines the duration of a single example is meaningless. There are eighty property tests, so each runs only
# a quarter of Hypothesis's default number of examples.
settings.register_profile("tmpmaild", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=1000)  # used by make proof WHAT=properties
settings.load_profile("tmpmaild")

LOOPS = [
    pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
]
OTHER_BROWSERS = ("firefox", "webkit")  # sorted first, so that each browser is started by a single worker
SLOW_FOLDERS = ("clients", "inbox", "browser", "e2e", "pytest_plugin", "cli", "client")
FREE_BYTES = 4 << 30
SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)
# The programs that fixtures start, by fixture name.
STARTED_BY = {"cluster": "postgresql", "launch": "chromium", "node": "node"}
missing = functools.cache(lambda name: name in peers.missing([name]))


@pytest.fixture
def anyio_backend():
    """Return the event loop for tests that behave the same on every event loop."""
    return ("asyncio", {"use_uvloop": True})


def pytest_generate_tests(metafunc):
    """Run marked tests on both event loops and, in the system tests, on both engines."""
    engines = stores.ENGINES if metafunc.config.option.proof else stores.ENGINES[:1]
    for mark, fixture, each in (("both_loops", "anyio_backend", LOOPS), ("both_engines", "engine_kind", engines)):
        if metafunc.definition.get_closest_marker(mark) and fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, each)


class Clock:
    """A clock in Unix milliseconds that only the test advances."""

    def __init__(self, now_ms: int = 1_790_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, *, ms: int = 0, seconds: int = 0) -> None:
        self.now_ms += ms + seconds * 1000


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def start(request, tmp_path):
    """Return a function that starts a daemon with these environment variables, by default on the same database."""
    is_warm = not request.node.get_closest_marker("cold")
    with ExitStack() as started:

        def start(folder=tmp_path, **settings):
            return started.enter_context(closing(Daemon(folder, **{"is_warm": is_warm, **settings})))

        yield start


@pytest.fixture(scope="module")
def start_in():
    """Return a function that starts a daemon without limits, for all tests of a module."""
    with ExitStack() as started:
        yield lambda folder, **settings: started.enter_context(closing(Daemon(folder, **{**NO_LIMITS, **settings})))


@pytest.fixture(scope="session", autouse=True)
def surroundings():
    """Set the environment and the signals to the same values wherever the tests are started."""
    with pytest.MonkeyPatch.context() as changes:
        for name in filter(is_foreign, list(os.environ)):
            changes.delenv(name)
        for name, value in {**KNOWN, "PATH": peers.PATH}.items():
            changes.setenv(name, value)
        ignored = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_IGN]
        for number in ignored:
            # Child processes must not inherit ignored signals, for example if the tests run in the background or under
            # nohup.
            signal.signal(number, lambda *_: None)
        yield
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def cluster():
    """Return a PostgreSQL server for this worker, started when the first test requests it."""
    cluster = clusters.started_cluster()
    yield cluster
    clusters.remove(cluster)


@pytest.fixture(scope="session")
def database(cluster):
    """Return the URL of a database that this worker's tests use in turn."""
    return cluster.parsed_url(cluster.database())


@pytest.fixture(scope="session")
def empty(database):
    """Return a function that empties that database."""
    with emptier(database) as empty:
        yield empty


@pytest.fixture
def engine_kind():
    """Return the engine for tests without the ``both_engines`` mark."""
    return "sqlite"


@pytest.fixture
def store(engine_kind, request, tmp_path):
    """Return the location of an empty storage."""
    if engine_kind == "sqlite":
        return stores.SqliteStore(tmp_path / "mail.db")
    assert request.node.get_closest_marker("needs"), (
        'mark the test needs("postgresql"), so that make test skips it without PostgreSQL'
    )
    request.getfixturevalue("empty")()
    return stores.PostgresqlStore(*map(request.getfixturevalue, ("cluster", "database")))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Use one more worker than there are cores, up to eight workers, because tests spend time waiting."""
    return min(len(os.sched_getaffinity(0)) + 1, 8) if config.option.numprocesses == "auto" else None


def pytest_addoption(parser):
    """Add the options for CI and the system tests."""
    parser.addoption("--all-peers", action="store_true", help="fail if a program that a test needs is missing")
    parser.addoption("--proof", action="store_true", help="run tests marked proof, and both_engines on both engines")


def pytest_report_header(config):
    """Before the tests start, report which programs are missing and how to install them."""
    if config.option.markexpr != "needs":
        return None
    absent = peers.missing()
    said = f"missing programs: {', '.join(absent) or 'none'}"
    if absent:
        said += f"; their tests are skipped. To install them:\n  apt-get install {peers.packages(absent)}"
    if absent and config.option.all_peers:
        raise pytest.UsageError(said)
    return said


def pytest_configure(config):
    """Store files in memory if enough memory is free, because tests mostly wait for the disk; allow bytecode files."""
    memory = Path("/dev/shm")
    is_chosen = config.option.basetemp or {"TMPDIR", "PYTEST_DEBUG_TEMPROOT"} & set(os.environ)
    if not is_chosen and memory.is_dir() and shutil.disk_usage(memory).free > FREE_BYTES:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(memory)
    # Compile modules only once, not in each of several hundred processes.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Run slow folders first: the short tests at the end can then be spread over all cores.

    Deselect the tests that only run as system tests. Mark the tests that need other programs, based on their fixtures
    and parameters.
    """
    if not config.option.proof:
        left_out = [item for item in items if item.get_closest_marker("proof")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("proof")]
    order = {folder: place for place, folder in enumerate((*OTHER_BROWSERS, *SLOW_FOLDERS))}

    def place(item):
        browser = item.callspec.params.get("browser_name") if hasattr(item, "callspec") else None
        return order.get(browser if browser in OTHER_BROWSERS else item.path.parent.name, len(order))

    items.sort(key=place)
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        names = {name for name in parameters if isinstance(name, str) and name in peers.PEERS}
        names |= {STARTED_BY[name] for name in STARTED_BY.keys() & set(getattr(item, "fixturenames", ()))}
        if names:
            item.add_marker(pytest.mark.needs(*sorted(names)))


def pytest_collection_finish():
    """Exclude the thousands of objects of the collected tests from garbage collection."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip a test if a program that it needs is missing."""
    needed = {name for mark in item.iter_markers("needs") for name in mark.args}
    if absent := [name for name in sorted(needed) if missing(name)]:
        pytest.skip(f"needs {', '.join(absent)} (Debian: apt-get install {peers.packages(absent)})")
