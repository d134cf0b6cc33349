"""What the commands to a running service say of wrong arguments, and where none runs."""

import pytest
from click.testing import CliRunner

from tmpmaild.cli.main import main


@pytest.fixture
def run(tmp_path):
    environ = {"TMPMAILD_STORAGE__PATH": str(tmp_path / "mail.db")}
    (tmp_path / "tmpmaild.toml").touch()

    def run(*arguments):
        return CliRunner().invoke(main, arguments, env=environ)

    return run


WRONG = {
    "status": [["x"], ["--unknown"]],
    "inboxes": [["x"], ["--client", "x"], ["--client", "10.0.0.0/8"], ["--client", "2001:db8::/48"], ["--client"]],
    "backup": [[], ["a", "b"]],
    "purge": [
        [],
        ["x"],
        [""],
        ["a@b.test", "--all"],
        ["--all", "--expired", "--yes"],
        ["--all"],
        ["--client", ""],
        ["--client", "1.2.3.4/24"],
        ["a@b.test", "c@d.test"],
    ],
}


@pytest.mark.parametrize(
    ("command", "arguments"), [(command, arguments) for command, wrong in WRONG.items() for arguments in wrong]
)
def test_wrong_arguments_are_wrong_usage(run, command, arguments):
    done = run(command, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Error: " in done.stderr


@pytest.mark.parametrize(
    "arguments", [["inboxes"], ["purge", "--all", "--yes"], ["purge", "--client", "2001:db8::/64"]]
)
def test_without_a_service_a_command_is_one_line(run, arguments):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (4, "")
    assert done.stderr.startswith("tmpmaild: no service answers at ")
    assert done.stderr.count("\n") == 1
