import asyncio

import pytest


@pytest.mark.parametrize("number", range(4))
def test_it(number, async_inbox, tmpmail, record_property):
    assert asyncio.run(async_inbox.messages()) == []
    record_property("daemon", tmpmail.url)
    assert number < 3
