"""The CI jobs in docs/testing/ci.md: their YAML is parsed, and their steps run as on a runner, including sign-up.sh."""

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from werkzeug import serving

import daemons
from proxies import free_port
from tmpmaild.cli.serving import FOR_TESTS
from tmpmaild.config import file as configfile

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "tests/examples"
PAGE = (ROOT / "docs/testing/ci.md").read_text()
STEPS, SERVICE, GITLAB = (
    yaml.safe_load(one)["jobs" if "jobs:" in one else "tests"]
    for one in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
)
CONTAINERFILE = (ROOT / "Containerfile").read_text()


@contextmanager
def shop(smtp_port):
    """Serve the shop, which sends its messages to a port; yield its URL."""
    create_app = runpy.run_path(str(EXAMPLES / "flask/shop.py"))["create_app"]
    server = serving.make_server("127.0.0.1", 0, create_app("127.0.0.1", smtp_port), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run_step(script, folder, environment):
    """Run a step in its own process group; return the group, the exit code and the output."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "process_group": 0}
    with subprocess.Popen(["bash", "-e", "-c", script], cwd=folder, env=environment, **given) as process:
        output = process.stdout.read()
    return process.pid, process.returncode, output


@pytest.mark.needs("curl", "jq")
def test_the_steps_start_a_service_and_sign_up_with_curl_and_jq(tmp_path):
    shutil.copy(EXAMPLES / "curl/sign-up.sh", tmp_path)
    job = STEPS["tests"]
    steps = [step["run"] for step in job["steps"] if "run" in step]
    # This step is not run, because the tests use the installed version.
    assert steps[0] == "python3 -m pip install ./tmpmaild"
    http, smtp = free_port(), free_port()
    url = job["env"]["TMPMAILD_URL"]
    assert url == "http://127.0.0.1:8025"
    with shop(smtp) as shop_url:
        environment = daemons.environment(
            **{name: text.replace("8025", str(http)).replace("1025", str(smtp)) for name, text in job["env"].items()},
            SHOP_URL=shop_url,
            PATH=os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin:/bin"]),
        )
        group, code, output = run_step(steps[1], tmp_path, environment)
        try:
            log = (tmp_path / "tmpmaild.log").read_text()
            assert (code, [line for line in output.splitlines() if "curl" not in line]) == (0, []), output + log
            assert run_step(steps[2], tmp_path, environment)[1:] == (0, "You are in.\n")
        finally:
            os.killpg(group, signal.SIGTERM)


def test_the_jobs_with_a_service_run_the_same_against_the_ports_of_the_image():
    github, gitlab = SERVICE["tests"], GITLAB
    assert [step["run"] for step in github["steps"] if "run" in step] == gitlab["script"] == ["sh sign-up.sh"]
    assert gitlab["before_script"][1] in STEPS["tests"]["steps"][3]["run"]
    ports = dict(re.findall(r"TMPMAILD_(HTTP|SMTP)__LISTEN=0\.0\.0\.0:(\d+)", CONTAINERFILE))
    assert github["services"]["tmpmaild"]["ports"] == [f"8025:{ports['HTTP']}", f"1025:{ports['SMTP']}"]
    assert gitlab["variables"]["TMPMAILD_URL"] == f"http://{gitlab['services'][0]['alias']}:{ports['HTTP']}"
    assert f"port {ports['SMTP']}" in PAGE
    assert "HEALTHCHECK" in CONTAINERFILE


@pytest.mark.parametrize(
    "variables",
    [
        STEPS["tests"]["env"],
        SERVICE["tests"]["services"]["tmpmaild"]["env"],
        GITLAB["services"][0]["variables"] | GITLAB["variables"],  # GitLab passes the job's variables to a service, too
    ],
)
def test_the_variables_are_a_configuration_that_lifts_the_limits(variables):
    assert variables["TMPMAILD_FOR_TESTS"] == "true"
    config = configfile.load(Path(os.devnull), variables, FOR_TESTS)
    assert (config.limits.exempt != (), config.smtp.keep_refusals) == (True, True)
