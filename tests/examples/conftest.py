"""What the pages of docs/testing show; tests/pytest_plugin/test_pages_examples.py runs it, each in a folder and a pytest of its own."""

collect_ignore_glob = ["*/test_*.py"]
