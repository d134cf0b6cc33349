"""Clients that third-party generators create from the served OpenAPI description, used with the daemon."""

import importlib
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from patience import PATIENCE_SECONDS

MAIL = Path(__file__).with_name("generated-clients.eml").read_bytes()
# openapi-python-client omits responses with an unknown media type.
UNKNOWN = ", ".join(
    f"{one}: application/octet-stream" for one in ("message/rfc822", "application/atom+xml", "application/mbox")
)
CONFIG = f"post_hooks: []\ncontent_type_overrides: {{{UNKNOWN}}}\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, start_in):
    return start_in(tmp_path_factory.mktemp("daemon"), TMPMAILD_DOMAINS="kit.test")


@pytest.fixture(scope="module")
def generate(tmp_path_factory, daemon):
    """Return a function that generates a module from the daemon's own description; a warning fails the test."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "description.json").write_bytes(httpx2.get(f"{daemon.url}/api/v1/openapi.json").content)
    (folder / "config.yml").write_text(CONFIG)
    sys.path.insert(0, str(folder))

    def generate(name, program, *arguments):
        command = [str(Path(sys.executable).with_name(program)), *arguments]
        done = subprocess.run(
            command, check=False, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "warning" not in done.stdout.lower()
        return importlib.import_module(name)

    yield generate
    sys.path.remove(str(folder))


@pytest.mark.proof
def test_openapi_python_client(daemon, generate):
    """The generator creates functions and classes.

    Each response is parsed into the class that the description specifies.
    """
    arguments = "--path description.json --config config.yml --meta none --output-path generated_client".split()
    made = generate("generated_client", "openapi-python-client", "generate", *arguments)
    models = importlib.import_module("generated_client.models")

    def call(name, *arguments, client, **members):
        return importlib.import_module(f"generated_client.api.{name}").sync(*arguments, client=client, **members)

    with made.Client(daemon.url) as client:
        assert call("addresses.list_domains", client=client).domains == ["kit.test"]
        wish = models.CreateRequest(local_part="sign-up", domain="kit.test", private=True)
        created = call("addresses.create_address", client=client, body=wish)
        assert (created.address, created.private) == ("sign-up@kit.test", True)
        taken = call("addresses.create_address", client=client, body=wish)
        assert (type(taken), taken.code) == (models.Document, "address-taken")
        assert call("messages.list_messages", created.address, client=client).code == "address-not-found"
        assert call("addresses.create_address", client=client).address.endswith("@kit.test")

    with made.AuthenticatedClient(daemon.url, created.token) as client:
        daemon.deliver_raw(created.address, MAIL, sender="ann@example.org")
        (listed,) = call("messages.list_messages", created.address, client=client, wait=10, subject="code").messages
        assert (listed.from_, listed.codes[0].value) == ("ann@example.org", "481516")
        message = call("messages.get_message", created.address, listed.id, client=client)
        assert ["Subject", "Your code"] in message.headers
        assert message.date < message.received_at
        attachment = call("messages.get_attachment", created.address, listed.id, 0, client=client)
        assert attachment.payload.read() == b"\x89octets"
        source = call("messages.get_source", created.address, listed.id, client=client)
        assert source.payload.read().endswith(MAIL)
        mbox = call("messages.export_messages", created.address, client=client)
        assert mbox.payload.read().endswith(MAIL.replace(b"\r\n", b"\n") + b"\n")
        view = call("messages.create_view", created.address, listed.id, client=client)
        page = call("messages.look_at_view", view.url.removeprefix("/view/"), client=client)
        assert "481516" in page
        too_long = models.ExtendRequest(expires_in_seconds=10**6)
        refused = call("addresses.extend_address", created.address, client=client, body=too_long)
        assert [one.pointer for one in refused.errors] == ["/expires_in_seconds"]
        shorter = models.ExtendRequest(expires_in_seconds=60)
        extended = call("addresses.extend_address", created.address, client=client, body=shorter)
        assert extended.expires_at < created.expires_at
        assert call("messages.delete_message", created.address, listed.id, client=client) is None
        assert call("messages.delete_messages", created.address, client=client, id=[listed.id]).deleted == 0
        assert call("messages.list_messages", created.address, client=client).messages == []
        call("addresses.delete_address", created.address, client=client)
        assert call("addresses.get_address", created.address, client=client).code == "address-expired"


@pytest.mark.proof
def test_datamodel_code_generator(daemon, generate):
    """The generator creates pydantic models that validate their input; every response of the daemon is valid."""
    arguments = "--input description.json --input-file-type openapi --output generated_models.py".split()
    kind = "--output-model-type pydantic_v2.BaseModel --formatters builtin".split()
    models = generate("generated_models", "datamodel-codegen", *arguments, *kind)

    with httpx2.Client(base_url=daemon.url) as client:

        def ask(method, path, kind, wish=None, token=None):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            members = wish.model_dump(exclude_unset=True) if wish else None
            answer = client.request(method, f"/api/v1{path}", json=members, headers=headers)
            return kind.model_validate_json(answer.content)

        assert ask("GET", "/domains", models.DomainList).domains == ["kit.test"]
        created = ask("POST", "/addresses", models.AddressResource, models.CreateRequest(domain="kit.test"))
        path = f"/addresses/{created.address}"
        daemon.deliver_raw(created.address, MAIL, sender="ann@example.org")
        (listed,) = ask("GET", f"{path}/messages?wait=10", models.MessageList).messages
        message = ask("GET", f"{path}/messages/{listed.id}", models.FullMessageItem)
        assert ("Subject", "Your code") in message.headers
        assert message.envelope.from_ == "ann@example.org"
        assert message.body == listed.body == "Your code is 481516"
        assert message.attachments[0].filename == "a.png"
        view = ask("POST", f"{path}/messages/{listed.id}/view", models.ViewItem, models.ViewRequest(remote_images=True))
        assert view.expires_at > message.received_at
        wish = models.ExtendRequest(expires_in_seconds=60)
        assert ask("PATCH", path, models.Document, wish).code == "unauthorized"
        assert ask("PATCH", path, models.AddressResource, wish, created.token).expires_at < created.expires_at
        assert ask("GET", "/addresses/nobody@kit.test", models.Document).status == 404
