"""The commands of the README and of the first page on the API, run as they stand."""

import json
import re
import smtplib
import subprocess
import sys
from pathlib import Path

import pytest

from daemons import environment

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def block(page, heading):
    """Return the first shell block below a heading."""
    return re.search(rf"## {heading}\n.*?```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)[1]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, start_in):
    return start_in(tmp_path_factory.mktemp("readme"))


@pytest.mark.needs("curl")
def test_the_api_in_one_minute(daemon):
    create, choose, read, wait, delete = re.findall(r"^curl .*$", block("docs/api.md", "In one minute"), re.MULTILINE)
    token = 'TOKEN=$(grep -o \'"token":"[^"]*\' answer.json | cut -d\'"\' -f4)'

    def run(script):
        local = script.replace("localhost:8025", f"127.0.0.1:{daemon.http_port}")
        done = subprocess.run(
            ["bash", "-c", local], cwd=daemon.folder, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.splitlines()

    random_address, chosen, *answer = run(f"{create}; echo; {choose} | tee answer.json; echo; {token}; {read}")
    assert '"address":' in random_address
    assert '"address":"signup-test@mail.example.com"' in chosen
    assert answer[0].startswith("HTTP/1.1 200")
    assert answer[-1] == '{"messages":[]}'
    mail = b"Subject: Please confirm\r\n\r\nYour verification code is 481516.\r\n"
    with smtplib.SMTP("127.0.0.1", daemon.smtp_port, local_hostname="localhost") as client:
        client.sendmail("a@example.com", ["signup-test@mail.example.com"], mail)
    (shown,) = run(f"{token}; {wait}")
    assert '"codes":[{"value":"481516"' in shown
    run(f"{token}; {delete}")
    assert run(f"{token}; {read}")[0].startswith("HTTP/1.1 410")


def test_the_answer_shown_has_the_fields_of_a_real_one(daemon, command):
    address = daemon.create()
    command("send", address, "--server", f"127.0.0.1:{daemon.smtp_port}")
    (message,) = daemon.messages(address)
    (shown,) = json.loads(re.search(r"```json\n(.*?)```", README, re.DOTALL)[1])["messages"]
    assert shown.keys() == message.keys()
    assert shown["size"] == message["size"]
    assert [code["value"] for code in shown["codes"]] == [code["value"] for code in message["codes"]]


def test_in_your_tests_from_a_shell(daemon):
    new, wait = re.findall(r"^\S*\.venv/bin/tmpmaild.*|^code=.*", block("README.md", "In your tests"), re.MULTILINE)
    program = f"{sys.executable} -m tmpmaild"
    new, wait = (line.split("  #")[0].replace(".venv/bin/tmpmaild", program) for line in (new, wait))
    script = f"""
        mkfifo mail
        {new} > mail & pid=$!
        exec 3< mail && read -r address <&3
        {program} send "$address" --server 127.0.0.1:{daemon.smtp_port} > /dev/null
        {wait}
        kill "$pid"
        echo "$code"
    """
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=daemon.folder,
        env=environment(TMPMAILD_URL=daemon.url),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "481516\n"
