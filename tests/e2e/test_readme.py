"""The commands in the README and on the first page about the API, run unchanged."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from blocks import shell_blocks
from daemons import FREE_PORTS, environment, finished

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def block(page, heading, language="sh"):
    """Return the first code block in this language below a heading."""
    return re.search(rf"## {heading}\n.*?```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)[1]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, start_in):
    return start_in(tmp_path_factory.mktemp("readme"))


@pytest.mark.needs("curl")
def test_the_api_in_one_minute(daemon):
    create, choose, read, wait, delete = re.findall(r"^curl .*$", block("docs/api.md", "In one minute"), re.MULTILINE)
    token = 'TOKEN=$(grep -o \'"token":"[^"]*\' answer.json | cut -d\'"\' -f4)'

    def run(script):
        local = script.replace("localhost:8025", f"127.0.0.1:{daemon.http_port}")
        done = finished(["bash", "-c", local], cwd=daemon.folder, check=True)
        return done.stdout.splitlines()

    random_address, chosen, *answer = run(f"{create}; echo; {choose} | tee answer.json; echo; {token}; {read}")
    assert '"address":' in random_address
    assert '"address":"signup-test@mail.example.com"' in chosen
    assert answer[0].startswith("HTTP/1.1 200")
    assert answer[-1] == '{"messages":[]}'
    mail = b"Subject: Please confirm\r\n\r\nYour verification code is 481516.\r\n"
    daemon.deliver_raw("signup-test@mail.example.com", mail)
    (shown,) = run(f"{token}; {wait}")
    assert '"codes":[{"value":"481516"' in shown
    run(f"{token}; {delete}")
    assert run(f"{token}; {read}")[0].startswith("HTTP/1.1 410")


def test_the_shown_response_has_the_fields_of_a_real_response(daemon, command):
    address = daemon.create()
    command("send", address, "--server", f"127.0.0.1:{daemon.smtp_port}")
    (message,) = daemon.messages(address)
    (shown,) = json.loads(block("docs/api.md", "Message", "json"))["messages"]
    assert shown.keys() == message.keys()
    assert shown["size"] == message["size"]
    assert [code["value"] for code in shown["codes"]] == [code["value"] for code in message["codes"]]


# The README's blocks run unchanged in a clone of this repository. Environment variables select other ports and replace
# network access: git maps the URL to this folder, make finds an existing .venv, and curl connects to the daemon's port.


@pytest.fixture(scope="module")
def at_home(tmp_path_factory):
    """Return the environment of a user who follows the README, but with free ports."""
    home = tmp_path_factory.mktemp("home")
    hook = home / "hooks" / "post-checkout"
    hook.parent.mkdir()
    hook.write_text(
        f"#!/bin/sh\nmkdir -p .venv/bin && touch -d '1 hour' .venv/.run && ln -s '{sys.executable}' .venv/bin/python\n"
        f"ln -s '{Path(sys.executable).parent / 'tmpmaild'}' .venv/bin/tmpmaild\n"
    )
    hook.chmod(0o700)
    given = {f"url.{ROOT}.insteadOf": "https://github.com/tmpmaild/tmpmaild", "core.hooksPath": str(hook.parent)}
    given |= {"safe.directory": "*"}
    git = {"GIT_CONFIG_COUNT": str(len(given))}
    for index, (key, value) in enumerate(given.items()):
        git |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return environment(**FREE_PORTS, **git, HOME=str(home), CURL_HOME=str(home), TMPMAILD_LIMITS__EXEMPT="127.0.0.0/8")


@pytest.fixture(scope="module")
def cloned(at_home):
    """Run the first block, which starts a server, until Ctrl-C.

    Yield the folder and a second terminal's environment.
    """
    (first, *_) = blocks("Try it")
    home = Path(at_home["HOME"])
    given = {"cwd": home, "env": at_home, "text": True, "start_new_session": True}
    with subprocess.Popen(["bash", "-euc", first], stdout=subprocess.PIPE, **given) as terminal:
        try:
            banner = ""
            while "/messages" not in banner:
                line = terminal.stdout.readline()
                assert line, banner
                banner += line
            http, smtp = (re.search(rf"{name} on (.*)", banner)[1] for name in ("HTTP", "SMTP"))
            (home / ".curlrc").write_text(f'connect-to = "127.0.0.1:8025:{http}"\n')
            led = {"TMPMAILD_URL": f"http://{http}", "TMPMAILD_HTTP__LISTEN": http, "TMPMAILD_SMTP__LISTEN": smtp}
            yield home / "tmpmaild", at_home | led
        finally:
            os.killpg(terminal.pid, signal.SIGINT)


def blocks(heading):
    return [block.script for block in shell_blocks("README.md") if block.heading == heading]


def done_in(folder, environ, script):
    given = {"capture_output": True, "text": True, "timeout": 60}
    return subprocess.run(["bash", "-euc", script], cwd=folder, env=environ, check=True, **given).stdout


@pytest.mark.needs("curl")
def test_the_first_commands_show_the_message_and_its_code(cloned):
    folder, environ = cloned
    _, second = blocks("Try it")
    (message,) = json.loads(done_in(folder, environ, second).partition("\n")[2])["messages"]
    assert (message["subject"], message["codes"][0]["value"]) == ("Hello from tmpmaild", "481516")


def test_the_complete_test_passes(tmp_path):
    """The block runs unchanged except for pip: the packages are already installed."""
    (tmp_path / re.search(r"`(test_\w+\.py)`", README)[1]).write_text(block("README.md", "In your tests", "python"))
    (script,) = blocks("In your tests")
    installing, _, running = script.partition("\n")
    assert installing.startswith('pip install "../tmpmaild[client]"')
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # Other installed plugins may cause warnings.
    assert "1 passed" in done_in(tmp_path, environment(PATH=path, PYTHONWARNINGS=""), running)
