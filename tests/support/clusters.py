"""A PostgreSQL server for tests: a cluster in a temporary folder, on a Unix socket, run by an unprivileged user."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg

import peers
from patience import PATIENCE_SECONDS
from tmpmaild.config import databaseurl

MEMORY = Path("/dev/shm")
FREE_BYTES = 2 << 30
ROLE = "tmpmaild"
SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "max_wal_size": "128MB",
    "wal_level": "replica",
    "log_min_messages": "fatal",
    "autovacuum_naptime": "1h",
}
AS_NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--pdeathsig=INT"]


class Cluster:
    """A cluster; ``url`` is the URL of a database in it."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.settings = SETTINGS | (settings or {})
        self.process = None
        self._databases = 0

    def run(self, name, *arguments):
        """Run one of the server's programs as an unprivileged user, and wait for it."""
        subprocess.run(self.command(name, *arguments), check=True, capture_output=True, cwd="/", timeout=120)

    def command(self, name, *arguments):
        return [*(AS_NOBODY if os.getuid() == 0 else ()), str(peers.postgresql() / name), *arguments]

    def create(self):
        data = str(self.folder / "data")
        self.run("initdb", "-D", data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C", "-N")

    def start(self):
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        command = self.command("postgres", "-D", str(self.folder / "data"), "-k", str(self.folder), *options)
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        log.close()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((self.folder / "log").read_text())
            time.sleep(0.02)

    def _answers(self):
        try:
            self.execute("SELECT 1")
        except (OSError, asyncpg.PostgresError):
            return False
        return True

    def stop(self, how=signal.SIGINT):
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE_SECONDS)
            self.process = None

    def execute(self, *statements, database="postgres"):
        """Run statements as the superuser; return the value of the last statement."""

        async def run(connection):
            for statement in statements:
                value = await connection.fetchval(statement)
            return value

        return self._connected(run, database)

    def fetch(self, sql, database="postgres"):
        """Return the rows of a query run by the superuser."""

        async def run(connection):
            return [tuple(row) for row in await connection.fetch(sql)]

        return self._connected(run, database)

    def _connected(self, run, database):
        async def connect_and_run():
            # A server that is still starting may accept a connection and never respond.
            connection = await asyncpg.connect(
                host=str(self.folder), user="postgres", database=database, timeout=PATIENCE_SECONDS
            )
            try:
                return await run(connection)
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as thread:  # an event loop may be running in this thread
            return thread.submit(lambda: asyncio.run(connect_and_run())).result()

    def database(self, template="template0", encoding="UTF8"):
        """Create a database owned by our role, and return its name."""
        self._databases += 1
        name = f"test{self._databases}"
        self.execute(f"CREATE DATABASE {name} OWNER {ROLE} TEMPLATE {template} ENCODING '{encoding}'")
        return name

    def url(self, database, user=ROLE):
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def parsed_url(self, database, user=ROLE):
        return databaseurl.parse(self.url(database, user))


def started_cluster(**settings):
    """Create and start a cluster; the caller must call ``remove``."""
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > FREE_BYTES
    folder = Path(tempfile.mkdtemp(prefix="tmpmaild-pg-", dir=MEMORY if in_memory else None))
    if os.getuid() == 0:
        shutil.chown(folder, "nobody", "nogroup")
    cluster = Cluster(folder, settings)
    try:
        cluster.create()
        cluster.start()
        cluster.execute(f"CREATE ROLE {ROLE} LOGIN")
    except BaseException:
        remove(cluster)
        raise
    return cluster


def remove(cluster):
    cluster.stop(signal.SIGQUIT)
    shutil.rmtree(cluster.folder, ignore_errors=True)
