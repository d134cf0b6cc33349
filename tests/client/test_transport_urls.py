"""The service URL: as an argument or from the environment, with or without the API's path."""

import pytest

from tmpmaild.client.transport import service_url


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://mail.test:8025", "http://mail.test:8025"),
        ("http://mail.test:8025/", "http://mail.test:8025"),
        ("https://mail.test/tmp/", "https://mail.test/tmp"),
        ("http://mail.test:8025/api/v1", "http://mail.test:8025"),
        ("https://mail.test/tmp/api/v1/", "https://mail.test/tmp"),
        ("https://mail.test/api/v2", "https://mail.test/api/v2"),
    ],
)
def test_the_path_of_the_api_at_the_end_of_a_url_is_removed(given, used):
    assert service_url(given, {}) == used
    assert service_url(None, {"TMPMAILD_URL": given}) == used
