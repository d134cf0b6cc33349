"""Memory that is returned to the system, and the limit on file descriptors."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tmpmaild.config.settings import Config, Http, Smtp
from tmpmaild.host import process

SCRIPTS = [Path(__file__).with_name(f"process_{name}.py") for name in ("churn", "pieces")]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="requires glibc")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_freed_blocks_go_back_to_the_system(script):
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40


@pytest.mark.parametrize(
    ("limit", "smtp", "http", "expected"),
    [
        (16_384, 1000, 2000, (1000, 2000)),
        (1024, 1000, 2000, (412, 412)),
        (1024, 1000, 100, (724, 100)),
        (1024, 100, 2000, (100, 724)),
        (64, 1000, 2000, (6, 6)),
        (1024, 0, 0, (412, 412)),
        (20, 1000, 2000, (1, 1)),
    ],
)
def test_connections_leave_descriptors_for_other_uses(limit, smtp, http, expected):
    config = Config(smtp=Smtp(max_connections=smtp), http=Http(max_connections=http))
    found = process.limit_connections(config, limit)
    assert (found.smtp.max_connections, found.http.max_connections) == expected
    assert (found == config) == (expected == (smtp, http))


def test_as_many_descriptors_as_the_system_allows_are_used():
    program = (
        "import resource; from tmpmaild.host.process import raise_descriptor_limit as raised; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256)); "
        "print(raised(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "256 (256, 256)\n"
