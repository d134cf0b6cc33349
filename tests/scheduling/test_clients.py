"""The client on whose behalf a task runs."""

import asyncio

from tmpmaild.scheduling.clients import current_client, on_behalf_of


async def test_a_task_works_for_the_client_for_whom_it_was_started():
    async def client_of_now():
        return current_client()

    with on_behalf_of("192.0.2.1"):
        task = asyncio.create_task(client_of_now())
        with on_behalf_of("192.0.2.2"):
            assert current_client() == "192.0.2.2"
        assert current_client() == "192.0.2.1"
    assert current_client() == ""
    assert await task == "192.0.2.1"
