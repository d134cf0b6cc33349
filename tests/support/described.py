"""Requests generated from the OpenAPI description and sent to a real daemon, whose responses must match it."""

import json
import smtplib
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode  # noqa: F401 - for modules that import this module on demand
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from patience import PATIENCE_SECONDS
from tmpmaild.boundedh11 import MAX_HEADER_BYTES
from tmpmaild.http.app import OPERATIONS, describe_api

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
MAIL = Path(__file__).with_name("described.eml").read_bytes()
DOCUMENT = schemathesis.openapi.from_dict(json.loads(describe_api()))
DESCRIBED = {one.ok().definition.raw["operationId"]: one.ok() for one in DOCUMENT.get_all_operations()}
# Operations for which invalid requests can be generated.
MISTAKABLE = [one.id for one in OPERATIONS if one.query or one.body or "{id}" in one.path]


class Lives:
    """Addresses with messages on a running daemon; without them, generated requests would never find an inbox."""

    def __init__(self, daemon):
        self._daemon = daemon
        self._kept = self.new()

    def new(self):
        created = self._daemon.request("/api/v1/addresses", "POST").json
        with smtplib.SMTP("127.0.0.1", self._daemon.smtp_port) as smtp:
            smtp.sendmail("sender@example.org", [created["address"]], MAIL)
        (message,) = self._daemon.messages(created["address"])
        return {"address": created["address"], "id": message["id"], "index": 0, "token": created["token"]}

    def put_into(self, case):
        """Point a generated request at an existing inbox; requests that change an inbox use a new inbox."""
        life = self.new() if case.method in ("DELETE", "PATCH") else self._kept
        known = {name: quote(str(life[name])) for name in case.path_parameters if name in life}
        case.path_parameters.update(known)
        case.headers["Authorization"] = f"Bearer {life['token']}"
        if "wait" in (case.query or {}):
            case.query["wait"] = 0


def ask_all(lives, operation_id, mode, max_examples):
    """Send generated requests to one operation; ``mode`` decides whether they are valid or invalid."""
    operation = DESCRIBED[operation_id]
    streams = operation_id.startswith("follow")
    # The check would compare each event with the stream's schema, a string: OpenAPI 3.1 cannot describe events.
    held = [check for check in CHECKS if not (streams and check is checks.response_schema_conformance)]

    @settings(
        max_examples=max_examples,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), is_there=st.booleans())
    def ask(case, is_there):
        if is_there and not streams:
            lives.put_into(case)
        elif "wait" in (case.query or {}):
            case.query["wait"] = 0
        answer = case.call(base_url=lives._daemon.url, timeout=PATIENCE_SECONDS)
        is_bare = answer.status_code == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE and not answer.content
        if not (is_bare and len(answer.request.url) > MAX_HEADER_BYTES):  # such a request gets no problem document
            case.validate_response(answer, checks=held)

    ask()
