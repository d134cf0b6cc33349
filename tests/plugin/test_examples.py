"""The examples of docs/testing.md stand there as they run here."""

import re
import runpy
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tmpmaild import pytest_plugin
from tmpmaild.pytest_plugin import embedded

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "tests/examples"
DOCUMENT = (ROOT / "docs/testing.md").read_text()
FILES = sorted(path for path in EXAMPLES.glob("*/*") if path.suffix in (".py", ".sh"))


@pytest.fixture
def example(tmp_path):
    """Return a function that copies examples to the test's folder."""

    def copy(*names):
        for name in names:
            shutil.copy(EXAMPLES / name, tmp_path)

    return copy


@pytest.fixture
def shop_url(tmp_path):
    """Serve the shop; its mail goes to a daemon, whose URL comes along."""
    serving = pytest.importorskip("werkzeug.serving", reason="needs the Python package flask")
    create_app = runpy.run_path(str(EXAMPLES / "flask/shop.py"))["create_app"]
    with embedded.daemon(tmp_path, embedded.Wanted()) as service:
        assert not (tmp_path / "tmpmaild.db.control").exists()
        server = serving.make_server("127.0.0.1", 0, create_app(*service.smtp), threaded=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield {"SHOP_URL": f"http://127.0.0.1:{server.port}", "TMPMAILD_URL": service.url}
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_example_stands_in_the_guide_to_the_letter(path):
    assert path.read_text() in re.findall(r"^```\w+\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)


def test_every_fixture_option_and_ini_key_stands_in_the_guide():
    source = Path(pytest_plugin.__file__).read_text()
    fixtures = re.findall(r"^@pytest\.fixture.*\ndef ([a-z]\w+)", source, re.MULTILINE)
    options = re.findall(r'add(?:option|ini)\("([\w-]+)"', source)
    assert (len(fixtures), len(options)) == (6, 8)
    assert [name for name in fixtures + options if f"`{name}`" not in DOCUMENT] == []


def test_plain_pytest_a_flask_application_and_tests_in_parallel_need_nothing_but_the_plugin(example, run):
    pytest.importorskip("flask", reason="needs the Python package flask")
    pytest.importorskip("xdist", reason="needs the Python package pytest-xdist")
    example("plain/test_welcome.py", "flask/shop.py", "flask/test_shop.py", "parallel/test_parallel.py")
    status, text = run("-p", "xdist", "-n", "2", ini="pythonpath = .\n")
    assert (status, "11 passed" in text) == (0, True), text


def test_a_browser_signs_up_with_the_code_of_the_mail(example, run):
    pytest.importorskip("flask", reason="needs the Python package flask")
    pytest.importorskip("playwright", reason="needs the Python package playwright")
    if not shutil.which("chromium"):
        pytest.skip("needs chromium (Debian package chromium)")
    example("flask/shop.py", "browser/test_sign_up.py")
    status, text = run(ini="pythonpath = .\n")
    assert (status, "1 passed" in text) == (0, True), text


def test_a_shell_script_signs_up_with_curl_and_jq(shop_url, tmp_path):
    for program in ("curl", "jq"):
        if not shutil.which(program):
            pytest.skip(f"needs {program} (Debian package {program})")
    script = EXAMPLES / "curl/sign-up.sh"
    done = subprocess.run(
        ["sh", script],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", **shop_url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "You are in.\n", "")
