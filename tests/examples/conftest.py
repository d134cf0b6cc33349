"""The examples in docs/testing; tests/pytest_plugin/test_pages_examples.py runs each in its own folder and process."""

collect_ignore_glob = ["*/test_*.py"]
