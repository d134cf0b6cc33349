"""The assembled application: every operation in the description is available."""

import re

from tmpmaild.http.app import OPERATIONS


async def test_every_operation_has_a_route(client, subtests):
    for operation in OPERATIONS:
        with subtests.test(operation=operation):
            path = re.sub(r"\{\w+\}", "x", operation.path)
            answer = await client.ask("OPTIONS", path)
            assert answer.status == 204
            assert operation.method in answer.header("allow").split(", ")
