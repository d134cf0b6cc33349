"""The TypeScript and JavaScript examples run in an empty project.

tests/pytest_plugin/test_pages_examples.py checks the pages that show these examples.
"""

import base64
import json
import re
from pathlib import Path

import pytest

import peers
from proxies import free_port

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "tests/examples/typescript"

# A failing test whose report is checked. Its worker exits after it, so a second worker runs the remaining tests.
EXTRA = Path(__file__).with_name("examples-extra.mjs").read_text()
# The only Cypress function that the configuration file uses.
CYPRESS = "export const defineConfig = (config) => config;\n"
TASKS = Path(__file__).with_name("examples-tasks.mjs").read_text()


NO_MORE_TIME = (
    r'no message with subject "never" arrived at \S+ within [\d.]+ s, and the test has no more time; what arrived:\n'
    r"  2\S+  shop@shop\.example  Confirm your address"
)
SLOW = Path(__file__).with_name("examples-slow.mjs").read_text()


@pytest.mark.proof
@pytest.mark.needs("chromium")
def test_a_sign_up_takes_six_lines_with_playwright_and_all_workers_share_a_daemon(node, example):
    folder = example("shop.mjs", "playwright.config.mts", "sign-up.spec.ts")
    config = folder / "playwright.config.mts"
    without_windows = peers.which("chromium-headless-shell")  # the headless shell starts twice as fast
    config.write_text(config.read_text().replace("/usr/bin/chromium", without_windows))
    spec = (EXAMPLES / "sign-up.spec.ts").read_text()
    assert len(re.search(r"=> \{\n(.*)^\}\);", spec, re.MULTILINE | re.DOTALL)[1].splitlines()) <= 6
    (folder / "extra.spec.ts").write_text(EXTRA)
    playwright = ("node", "node_modules/@playwright/test/cli.js", "test", "--workers=1", "--reporter=json")
    report = json.loads(node(*playwright, cwd=folder, status=1, PORT=str(free_port())))
    tests = {one["title"]: one["tests"][0]["results"][0] for one in specs(report["suites"])}
    assert {title: result["status"] for title, result in tests.items()} == {
        "a customer signs up with the code of the mail": "passed",
        "shows a mail": "passed",
        "waits for too long": "failed",
        "fails": "failed",
    }
    assert re.search(NO_MORE_TIME, tests["waits for too long"]["error"]["message"])
    assert tests["fails"]["workerIndex"] != tests["shows a mail"]["workerIndex"]
    assert attached(tests["fails"], "service") == attached(tests["shows a mail"], "service")
    assert tests["fails"]["error"]["message"].endswith("as expected")
    assert re.search(
        r"shop@shop\.example  Confirm your address\n  code: \d{6}\n  \| Your", attached(tests["fails"], "messages of")
    )


def specs(suites):
    for suite in suites:
        yield from suite.get("specs", [])
        yield from specs(suite.get("suites", []))


def attached(result, name):
    (found,) = [one for one in result["attachments"] if name in one["name"]]
    return base64.b64decode(found["body"]).decode()


@pytest.mark.proof
def test_the_global_setup_of_vitest_starts_one_daemon_and_a_wait_ends_before_the_test(node, example):
    folder = example("shop.mjs", "sign-up.test.mjs", "vitest.config.mjs")
    (folder / "slow.test.mjs").write_text(SLOW)
    vitest = "exec node node_modules/vitest/vitest.mjs run 2>&1"
    said = node("sh", "-c", vitest, cwd=folder, status=1, NO_COLOR="1")
    assert re.search(r"Tests +1 failed \| 1 passed", said)
    assert re.search(NO_MORE_TIME, said)
    assert "tmpmaild: messages of" in said


def test_the_runner_of_node_needs_no_setup_and_exits_even_if_an_assertion_fails(node, example):
    folder = example("shop.mjs", "node.test.mjs")
    wrong = (folder / "node.test.mjs").read_text().replace("Wrong code", "Right code")
    (folder / "wrong.test.mjs").write_text(wrong)
    said = node("node", "--test", "--test-reporter=tap", "node.test.mjs", "wrong.test.mjs", cwd=folder, status=1)
    assert "# pass 1\n# fail 1\n" in said


@pytest.mark.proof
def test_the_configuration_for_cypress_has_tasks_that_read_the_code(node, example):
    folder = example("shop.mjs", "cypress.config.mjs")
    (folder / "node_modules/cypress").mkdir()
    (folder / "node_modules/cypress/index.mjs").write_text(CYPRESS)
    (folder / "node_modules/cypress/package.json").write_text('{"exports": "./index.mjs"}')
    (folder / "tasks.mjs").write_text(TASKS)
    assert node("node", "tasks.mjs", cwd=folder).endswith("You are in.\n\n")
