"""The documentation matches the code: its routes, codes, keys, commands, files and links exist."""

import ast
import os
import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import msgspec
import pytest
import versions
import yaml
from msgspec import Struct

import constraints
import deb
import prove
from blocks import shell_blocks
from constraints import requirements
from daemons import finished
from tmpmaild import __version__
from tmpmaild.cli.main import main
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import Config, keys_at_start, validators_by_key
from tmpmaild.errors import ConfigError
from tmpmaild.host.sockets import FAMILIES
from tmpmaild.http import requests, schemas
from tmpmaild.http.app import OPERATIONS
from tmpmaild.http.problems import PROBLEMS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
API = (ROOT / "docs/api.md").read_text()
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
KINDS = (".md", ".py", ".toml", ".txt", ".ts", ".yaml")  # Types of files that mention our commands.
# Files that the reader creates, and a file that the server generates for each language.
CYPRESS = {"cypress/e2e/sign-up.cy.js", "cypress/support/e2e.js"}
NAMES_OF_OTHERS = {"release-notes.md", *CYPRESS, "jest.config.js", "messages.js", "receiver.py"}


def test_every_route_is_in_the_api_reference():
    asked = {f"`{operation.method} {operation.path}`" for operation in OPERATIONS}
    assert [one for one in asked if one not in API] == []
    documented = set(re.findall(r"^\| (`[A-Z]+ /[^`]*`)", API, re.MULTILINE))
    assert documented - asked == {"`GET /`", "`GET /docs`", "`GET /problems/{code}`"}


def test_every_parameter_and_member_is_in_the_api_reference():
    kinds = [kind for module in (requests, schemas) for kind in vars(module).values() if isinstance(kind, type)]
    ours = [kind for kind in kinds if kind.__module__ in (requests.__name__, schemas.__name__)]
    structs = [kind for kind in ours if issubclass(kind, Struct) and not kind.__name__.startswith("_")]
    names = {field.encode_name for kind in structs for field in msgspec.structs.fields(kind)}
    assert len(names) > 40
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", API)] == []


def test_every_problem_is_in_the_api_reference_with_its_status():
    rows = dict(re.findall(r"^\| (\d{3}) \| (.*) \|$", API, re.MULTILINE))
    missing = [code for code, problem in PROBLEMS.items() if f"`{code}`" not in rows.get(str(problem.status), "")]
    assert missing == []
    documented = set(re.findall(r"`([a-z-]+)`", " ".join(text.split(", with")[0] for text in rows.values())))
    assert documented - PROBLEMS.keys() == set()


def test_keys_that_need_a_restart_are_documented():
    text = (ROOT / "docs/configuration.md").read_text()
    items = re.findall(r"^- `([\w.]+)` (.*?)$(?!\n )", text, re.MULTILINE | re.DOTALL)
    assert {key for key, item in items if item.endswith("*Restart.*")} == set(keys_at_start())


def test_every_command_is_documented():
    text = README + (ROOT / "docs/operations.md").read_text() + (ROOT / "docs/commands.md").read_text()
    assert [name for name in main.commands if name not in text] == []


def test_every_shell_block_for_operators_is_run_by_a_test():
    """A block below any other heading needs an entry here: the test that runs it, or the reason why no test does."""
    elsewhere = {"Try it": "tests/e2e/test_readme.py", "In your tests": "tests/e2e/test_readme.py"}
    proof = (ROOT / "tests/system/test_install.py").read_text()
    assert 'shell_blocks("docs/operations.md")' in proof
    headings = {block.heading for block in shell_blocks("README.md")}
    assert headings == {"Install on a server", *elsewhere}
    assert len(shell_blocks("docs/operations.md")) > 12
    fences = (ROOT / "docs/operations.md").read_text().count("```sh\n")
    assert len(shell_blocks("docs/operations.md")) == fences


def test_the_files_that_operators_copy_exist_and_are_valid():
    text = README + (ROOT / "docs/operations.md").read_text()
    copied = set(re.findall(r"/opt/tmpmaild/src/([\w./-]+)", text))
    assert [name for name in copied if not (ROOT / name).exists()] == []
    examples = set(re.findall(r"/usr/share/doc/tmpmaild/examples/([\w.-]+)", text))
    assert {"Caddyfile", "nginx.conf"} <= examples <= deb.examples().keys()


def test_the_server_configuration_marks_what_to_edit_and_is_valid_afterwards(tmp_path):
    place = tmp_path / "config.toml"
    text = (ROOT / "systemd/config.toml").read_text()
    place.write_text(text)
    with pytest.raises(ConfigError, match=r"domains\[0\]: expected a domain name, found '<your domain>'"):
        configfile.load(place, {})
    # Replace the name in all lines, as the README instructs, or only in the first line.
    place.write_text(
        re.sub(r"^#(.*<your domain>)", r"\1", text, flags=re.MULTILINE).replace("<your domain>", "a.example")
    )
    assert configfile.load(place, {}).smtp.hostname == "mx.a.example"
    place.write_text(text.replace("<your domain>", "tmp.example.org"))
    config = configfile.load(place, {})
    assert config.domains == ("tmp.example.org",)
    assert config.smtp.listen == ("0.0.0.0:25", "[::]:25")
    assert config.http.trusted_proxies


def test_every_table_has_a_line_below_its_header_and_rows_of_the_same_length():
    """Without this line, a page shows the rows as text; a row may not continue on the next line."""
    for page in DOCUMENTS:
        text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for table in re.findall(r"^\|.*\n(?:.+\n)*", text, re.MULTILINE):
            header, below, *rows = table.splitlines()
            assert re.fullmatch(r"\|(:?-+:?\|)+", below), f"{page.name}: {header}"
            columns = below.count("|")
            for row in (header, *rows):
                assert len(re.findall(r"(?<!\\)\|", row)) == columns, f"{page.name}: {row}"


def test_every_documented_make_target_exists():
    """Checks inline code, shell blocks in documents, CI scripts, and the names of system tests."""
    ci = "".join(path.read_text() for path in (*(ROOT / ".github").rglob("*.*"), ROOT / ".ci/run"))
    texts = [path.read_text() for path in _files() if path.suffix in KINDS and path.name != "CHANGELOG.md"]
    blocks = [block for text in texts for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) | {
        ".venv/.run",
        ".venv/.dev",
        ".venv/.proofs",
    }
    named = set(re.findall(r"`make ([\w./-]+)", "".join((ci, *texts))))
    named |= set(re.findall(r"^[ -]*(?:run: )?make ([\w./-]+)", "\n".join((ci, *blocks)), re.MULTILINE))
    assert len(named) > 10
    assert named - targets == set()
    proofs = re.findall(r"make proof WHAT=(\w+|\"[\w ]+\")", "".join((ci, *texts)))
    assert {name for names in proofs for name in names.strip('"').split()} - prove.PROOFS.keys() == set()


def test_every_proof_and_target_is_in_the_list_of_commands():
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = re.search(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert re.findall(r"^  make ([a-z-]+) +\S", listed, re.MULTILINE) == targets
    assert re.findall(r"^  ([a-z]+) +.+ min\b", listed, re.MULTILINE) == list(prove.PROOFS)
    run = {word for one in prove.PROOFS.values() for word in one.command() if word.startswith("tests/system/")}
    assert run == {str(path.relative_to(ROOT)) for path in (ROOT / "tests/system").glob("test_*.py")}


def test_the_issue_forms_and_the_commit_hook_are_valid():
    forms = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/ISSUE_TEMPLATE").iterdir()}
    asked = [element for form in forms.values() for element in form.get("body", ())]
    assert {element["type"] for element in asked} == {"textarea", "input"}
    assert len({element["id"] for element in asked}) == len(asked) == sum("label" in one["attributes"] for one in asked)
    ((hook,),) = [
        repository["hooks"] for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    ]
    assert (hook["entry"], hook["language"]) == ("make check", "system")


def _anchors(page):
    """Return the link targets of a page, with GitHub's names."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {"", *(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_has_a_target(path):
    links = re.findall(r"\]\((?!https://)([^)#]*)#?([^)]*)\)", path.read_text())
    assert [link for link, _ in links if not (path.parent / link).exists()] == []
    led = [(path.parent / link if link else path, anchor) for link, anchor in links if anchor]
    assert [(target.name, anchor) for target, anchor in led if anchor not in _anchors(target.read_text())] == []


def test_every_file_in_the_architecture_page_exists():
    text = (ROOT / "docs/architecture.md").read_text()
    named = re.findall(r"`([\w-][\w./-]*(?:/|\.(?:js|json|md|py|toml)))`", text)
    assert len(set(named)) > 70
    assert [name for name in named if not any((root / name).exists() for root in (ROOT, ROOT / "tmpmaild"))] == []


def _files():
    """Yield every file of the project, except installed and built files."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name[0] != "." and name not in ("node_modules", "dist", "build")]
        yield from (Path(folder, name) for name in names)


def test_every_module_and_page_that_is_mentioned_exists():
    """Checks documents, docstrings and comments; a path may omit its leading folders."""
    files = {path.relative_to(ROOT): path for path in _files()}
    known = {"/".join(path.parts[at:]) for path in files for at in range(len(path.parts))} | NAMES_OF_OTHERS
    missing = []
    for path, place in files.items():
        if path.suffix in (".md", ".py", ".js", ".ts", ".mjs", ".sql", ".toml") and path.name != "CHANGELOG.md":
            named = re.findall(r"`([\w-][\w.-]*(?:/[\w.-]+)*\.(?:py|js|ts|mjs|sql|md))`", place.read_text())
            missing += [(str(path), name) for name in set(named) - known]
    assert missing == []


def test_every_reference_in_a_comment_exists():
    for folder in ("tmpmaild", "clients/typescript/src"):
        paths = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".js", ".ts")]
        sources = "\n".join(path.read_text() for path in paths)
        words = Counter(re.findall(r"\w+", sources))
        named = Counter(re.findall(r"\bsee `+(\w+)`", sources))
        assert named
        assert [name for name, times in named.items() if words[name] == times] == [], folder


ATTACKS = {
    attack: [line.strip() for line in tests]
    for attack, *tests in map(str.splitlines, (ROOT / "tests/attacks.txt").read_text().split("\n\n")[1:])
}


def _answers():
    """Yield each attack in the tables of ``docs/security.md``: its name, its settings and their defaults."""
    text = (ROOT / "docs/security.md").read_text()
    for rows in re.findall(r"^\| attack \| defence \|\n\|-.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        for row in rows.splitlines():
            attack, _, answer = row.removeprefix("| ").partition(" | ")
            yield attack, *zip(*re.findall(r"`([\w.]+)`: `(.*?)`", answer), strict=True)


def test_every_attack_has_a_defence_with_a_test():
    assert list(ATTACKS) == [attack for attack, *_ in _answers()]
    assert [attack for attack, tests in ATTACKS.items() if not tests] == []
    found = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    named = [test.split("::") for tests in ATTACKS.values() for test in tests]
    assert [name for name in named if f"def {name[1]}(" not in found.get(ROOT / "tests" / name[0], "")] == []


def test_every_setting_against_an_attack_has_the_documented_default():
    tree, unit = msgspec.to_builtins(Config()), (ROOT / "systemd/tmpmaild.service").read_text()

    def default(setting):
        if setting not in validators_by_key():
            return re.search(rf"^{setting}=(.*)$", unit, re.MULTILINE)[1]
        section, _, name = setting.rpartition(".")
        return (tree[section] if section else tree)[name]

    for attack, *pairs in _answers():
        settings, defaults = pairs or ((), ())
        real = [default(setting) for setting in settings]
        told = [
            one if isinstance(value, str) and one == value else tomllib.loads(f"x = {one}")["x"]
            for one, value in zip(defaults, real, strict=True)
        ]
        assert told == [list(value) if isinstance(value, tuple) else value for value in real], attack


def test_every_known_issue_has_a_remedy_and_quotes_the_log_exactly():
    text = (ROOT / "docs/known-issues.md").read_text()
    rows = re.findall(r"^\| (?!\*\*|what |-)(.+?) \|(.*?)\|(.*?)\|$", text, re.MULTILINE)
    assert len(rows) > 10
    assert [issue for issue, _, helps in rows if not helps.strip()] == []
    quoted = [text for _, line, _ in rows for text in re.findall(r"`(.+?)`", line)]
    sources = [path.read_text() for path in (ROOT / "tmpmaild").rglob("*.py")]
    trees = [ast.parse(source) for source in sources if "log." in source]
    said = "\n".join(str(node.value) for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    assert len(quoted) > 2
    assert [text for text in quoted if text not in said] == []


def test_every_decision_is_listed_once_with_a_reason_to_reconsider_it():
    entries = re.split(r"^### ", (ROOT / "docs/decisions.md").read_text(), flags=re.MULTILINE)[1:]
    titles = [entry.partition("\n")[0] for entry in entries]
    assert len(set(titles)) == len(titles) > 20
    assert [title for title, entry in zip(titles, entries, strict=True) if "*Reason to reconsider:*" not in entry] == []


def test_the_version_is_the_same_everywhere():
    for name, (pattern, _) in versions.PLACES.items():
        found = re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE)
        assert set(found) == {__version__}, name


def test_the_pins_cover_every_dependency_and_name_no_registry():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for layer, extras in constraints.LAYERS.items():
        pinned = {constraints.normal(name) for name in re.findall(r"^([\w.-]+)==", requirements(layer), re.MULTILINE)}
        wanted = [line for extra in extras for line in project["optional-dependencies"][extra]]
        wanted += project["dependencies"] if extras else project_of_build()
        names = {constraints.normal(re.match(r"[\w.-]+", one)[0]) for one in wanted} - {"tmpmaild"}
        assert names - pinned == set()
    assert "://" not in requirements("proofs")


def project_of_build():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]


def test_every_pin_has_the_hashes_of_its_files():
    hashes = r"((?: \\\n    --hash=sha256:[0-9a-f]{64})*)\n"
    pins = re.findall(r"^[\w.-]+==[^\\\n]*?" + hashes, requirements("proofs"), re.MULTILINE)
    assert len(pins) > 200
    assert "" not in pins


def test_nothing_is_installed_from_a_registry_without_its_hash():
    sources = ["Makefile", "Containerfile", "docs/operations.md", ".ci/run"]
    lines = [line for name in sources for line in (ROOT / name).read_text().splitlines()]
    installing = [line for line in lines if re.search(r"(\bpip|\bPIP\)) (install|wheel) ", line)]
    assert len(installing) > 12
    checked = ("--require-hashes", "--no-index", "--no-deps --no-build-isolation")
    assert [line for line in installing if not any(word in line for word in checked)] == []


def test_the_socket_units_have_the_names_that_the_program_expects():
    units = sorted(unit for unit in (ROOT / "systemd").glob("*.socket") if "@" not in unit.name)
    named = re.compile(r"^FileDescriptorName=(.+)$", re.MULTILINE).findall
    assert [name for unit in units for name in named(unit.read_text())] == sorted(FAMILIES)
    assert [unit.name for unit in units] == [f"tmpmaild-{name}.socket" for name in sorted(FAMILIES)]


def test_the_units_for_several_daemons_differ_from_the_others_only_in_names():
    differing = {
        "tmpmaild.service": {"Description", "After", "Sockets", "SyslogIdentifier"}
        | {"WorkingDirectory", "StateDirectory", "RuntimeDirectory"},
        "tmpmaild-smtp.socket": {"Description", "ReusePort", "Service"},
        "tmpmaild-http.socket": {"Description", "ReusePort", "Service"},
    }
    for name, keys in differing.items():
        one, several = ROOT / "systemd" / name, ROOT / "systemd" / name.replace(".", "@.")
        changed = set(settings_of(one.read_text())) ^ set(settings_of(several.read_text()))
        assert {line.partition("=")[0] for line in changed} == keys


def settings_of(unit):
    return [line for line in unit.splitlines() if "=" in line and not line.startswith("#")]


def test_a_failing_unit_is_restarted_indefinitely_with_growing_pauses():
    for unit in (ROOT / "systemd").glob("*.service"):
        told = dict(line.split("=", 1) for line in settings_of(unit.read_text("utf-8")))
        assert (told["StartLimitIntervalSec"], told["Restart"]) == ("0", "on-failure")
        assert int(told["RestartSec"]) < int(told["RestartMaxDelaySec"]) <= 60 < 60 * int(told["RestartSteps"])


@pytest.mark.needs("systemd")
@pytest.mark.skipif(
    os.geteuid() != 0 and not Path("/run/systemd").exists(), reason="where systemd does not run only root can ask it"
)
def test_the_unit_is_valid_and_sandboxed():
    unit = ROOT / "systemd/tmpmaild.service"
    units = [*sorted(unit.parent.glob("*.service")), *sorted(unit.parent.glob("*.socket"))]
    verified = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    lines = (verified.stdout + verified.stderr).splitlines()
    newer = re.compile(r"Unknown key(?: name)? 'Restart(Steps|MaxDelaySec)' in section ").search  # systemd before 254
    assert (verified.returncode, [line for line in lines if not newer(line)]) == (0, [])
    for name in ("tmpmaild.service", "tmpmaild@.service"):
        rated = finished(["systemd-analyze", "security", "--offline=true", unit.with_name(name)])
        assert float(re.search(r"exposure level for \S+: ([\d.]+)", rated.stdout)[1]) <= 2.0, name


def test_the_units_and_scripts_of_the_package_are_valid():
    units = deb.units()
    assert {"tmpmaild.service", "tmpmaild@.service", "tmpmaild-smtp.socket"} <= units.keys()
    started = [line for text in units.values() for line in text.splitlines() if line.startswith("Exec")]
    assert {line.partition("=")[2].split()[0] for line in started} == {"/usr/bin/tmpmaild"}
    assert [name for name, text in units.items() if "/opt/" in text or "/usr/bin/env" in text] == []
    scripts = [ROOT / "deb" / name for name in ("postinst", "postrm", "prerm", "rtupdate")]
    for script in scripts:
        assert script.read_text().startswith("#!/bin/sh\n")
        subprocess.run(["sh", "-n", script], check=True)


def test_a_purge_deletes_mail_and_links_but_nothing_that_an_operator_wrote(tmp_path):
    units = tmp_path / "etc/systemd/system"
    kept = [units / "tmpmaild.service.d/certificate.conf", units / "tmpmaild-certificate.path"]
    mail = [tmp_path / "var/lib/private" / name / "tmpmaild.db" for name in ("tmpmaild", "tmpmaild-2")]
    wanted = units / "multi-user.target.wants/tmpmaild.service"
    for file in (*kept, *mail, wanted):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    wanted.unlink()
    wanted.symlink_to("/usr/lib/systemd/system/tmpmaild.service")
    (link := tmp_path / "var/lib/tmpmaild").symlink_to("private/tmpmaild")
    script = re.sub(r"(?<![\w*])/(var/lib|etc/systemd)", r"./\1", (ROOT / "deb/postrm").read_text())
    assert re.findall(r"(?<![\w*.])/(?:etc|usr|var)\b", script) == []  # it must not touch this machine
    subprocess.run(["sh", "-c", script, "postrm", "purge"], check=True, cwd=tmp_path)
    assert [file for file in (*mail, wanted, link) if os.path.lexists(file)] == []
    assert [file for file in kept if not file.exists()] == []
    assert "tmpmaild.service.d" in (ROOT / "docs/operations.md").read_text().partition("A purge keeps")[2]


@pytest.mark.needs("jq")
def test_the_documented_filter_for_refusals_skips_lines_of_systemd():
    (selected,) = re.findall(r"\| jq -R '([^']+)'", (ROOT / "docs/operations.md").read_text())
    refusal, other = '{"event":"smtp_refused","code":"550 5.1.1"}', '{"event":"started"}'
    journal = f"Starting tmpmaild.service …\n{refusal}\n{other}\nStopped tmpmaild.service\n"
    done = finished(["jq", "-Rc", selected], input=journal)
    assert (done.returncode, done.stdout) == (0, f"{refusal}\n")
