"""Verification by third parties: the receivers in docs/webhooks.md, unchanged, and the Standard Webhooks libraries."""

import importlib
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from webhookharness import SECRET

from daemons import environment
from tmpmaild.webhooks.calling import Caller
from tmpmaild.webhooks.signing import signed_fields
from tmpmaild.webhooktargets import parse_rule, parse_url

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/webhooks.md").read_text()
BODY = '{"type":"message.received","data":{"subject":"Zażółć 🙂"}}'.encode()
NODE_MODULES = ROOT / "clients/typescript/node_modules"


def block(language):
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


def signed(body=BODY, seconds=None):
    return dict(signed_fields(SECRET, "evt_1", int(time.time()) if seconds is None else seconds, body))


@contextmanager
def running(*command):
    """Run a receiver, and yield it with its port once it is listening."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environ = environment(PORT=str(port), WEBHOOK_SECRET=SECRET)
    with subprocess.Popen(
        command, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    assert process.poll() is None
            yield process, port
        finally:
            process.kill()


async def check_that_it_verifies(process, port):
    """Call a receiver with a valid signature and with invalid signatures, and check its responses."""

    async def call(fields, body=BODY):
        target = parse_url(f"http://127.0.0.1:{port}/")
        return await Caller().call([parse_rule(f"127.0.0.1:{port}")], target, list(fields.items()), body)

    assert (await call(signed())).status == 204
    assert process.stdout.readline() == "message.received Zażółć 🙂\n"
    old = signed(seconds=int(time.time()) - 600)
    for fields, body in ((signed(), BODY + b" "), (signed() | {"webhook-id": "evt_2"}, BODY), (old, BODY)):
        assert not (await call(fields, body)).is_good


async def test_the_python_receiver_accepts_only_our_calls():
    with running(sys.executable, "-c", block("python")) as (process, port):
        await check_that_it_verifies(process, port)


@pytest.mark.needs("node")
async def test_the_typescript_receiver_accepts_only_our_calls(tmp_path):
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    (tmp_path / "receiver.mjs").write_text(block("ts"))
    with running("node", str(tmp_path / "receiver.mjs")) as (process, port):
        await check_that_it_verifies(process, port)


@pytest.mark.needs("node")
def test_the_svix_package_from_npm_verifies_our_signature():
    script = """
    const { Webhook } = require("svix");
    const [secret, headers, body] = JSON.parse(process.argv[1]);
    new Webhook(secret).verify(body, headers);
    """
    given = msgspec.json.encode([SECRET, signed(), BODY.decode()]).decode()
    subprocess.run(["node", "-e", script, given], cwd=NODE_MODULES, check=True, capture_output=True)


@pytest.mark.proof
def test_the_svix_package_from_pypi_verifies_our_signature():
    svix = importlib.import_module("svix")
    svix.Webhook(SECRET).verify(BODY, signed())
    with pytest.raises(svix.WebhookVerificationError):
        svix.Webhook(SECRET).verify(BODY + b" ", signed())
