"""The list of all messages in a service that is not a catcher; ``tests/e2e/test_catch.py`` covers catchers."""

import pytest

from tmpmaild.http.allmail import AllMailEndpoints
from tmpmaild.http.openapi import declared

OPERATIONS = declared(AllMailEndpoints).values()


@pytest.mark.parametrize("operation", OPERATIONS, ids=[operation.id for operation in OPERATIONS])
async def test_without_a_catcher_each_operation_is_refused_with_a_code_that_names_the_option(client, operation):
    path = operation.path.format(id="msg_" + "0" * 26, index=0)
    response = await client.ask(operation.method, path)
    assert (response.status, response.json()["code"]) == (404, "catch-all-off")
    assert "--catch-all" in response.json()["detail"]


async def test_without_a_catcher_the_domains_do_not_mention_it(client):
    assert "catch_all" not in (await client.get("/api/v1/domains")).json()
