"""Lists the names that are stable until version 2, and adds new names to the recorded list.

The names are read from the program itself: the OpenAPI document, the settings, the commands, the metrics, the pytest
plugin, and both clients. ``docs/stability.md`` defines what is stable. First, this program uses ``configuration.py``
and ``typescript_types.py`` to regenerate the files that depend on the settings and the OpenAPI document.

python tools/stable.py      adds lines to tests/stable.json; delete the lines of removed names there by hand
"""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import pytest

import configuration
import typescript_types
from tmpmaild import client, pytest_plugin
from tmpmaild.cli import configured, exits, lists
from tmpmaild.cli import status as status_command
from tmpmaild.cli.main import main
from tmpmaild.config.settings import validators_by_key
from tmpmaild.host.metrics import START_TIME
from tmpmaild.http.app import describe_api
from typescript_types import type_text

ROOT: Final = Path(__file__).parents[1]
RECORDED: Final = ROOT / "tests/stable.json"
_TYPESCRIPT: Final = ROOT / "clients/typescript"
_ANY_NUMBER: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_MEASURE: Final = re.compile(r"(?:Count|Gauge|Histogram)\(")
_REEXPORT: Final = re.compile(r"^export (?:type )?\{([^}]*)\}", re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export (?:default )?(?:async )?(class|function|const|interface|type) (\w+)"
    r"([^\n]*\{\n.*?^\}|)",
    re.MULTILINE | re.DOTALL,
)
_MEMBER: Final = re.compile(r"^  (?:(?:readonly|async|get|static) )*\*?(\w+)(\??)[:(<]", re.MULTILINE)


def lines() -> dict[str, list[str]]:
    """Return the stable names by area."""
    found = {
        "api": api(json.loads(describe_api())),
        "configuration": (f"{key}: {one.expected}{' (list)' * one.many}" for key, one in validators_by_key().items()),
        "commands": (line for name, command in main.commands.items() for line in _command(name, command)),
        "exit codes": _exit_codes(),
        "metrics": _metrics(),
        "pytest plugin": _plugin(),
        "python client": (line for name in client.__all__ for line in members(name, getattr(client, name))),
        "typescript client": _typescript(),
    }
    return {subject: sorted(set(some)) for subject, some in found.items()}


def api(document: dict[str, Any]) -> Iterator[str]:
    """Yield the operations with their parameters and responses, and the fields of request and response bodies."""
    bodies = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method.upper()} {path}"
            wanted = operation.get("requestBody", {})
            bodies |= {_name(one["schema"]) for one in wanted.get("content", {}).values()}
            yield from _operation(where, operation, wanted)
    for name, schema in document["components"]["schemas"].items():
        required = schema["required"]
        if name in bodies:  # new required fields in requests would break clients; in responses they would not
            yield f"{name} needs: {', '.join(required) or 'nothing'}"
        for member, kind in schema["properties"].items():
            yield f"{name}.{member}{'' if member in required else '?'}: {type_text(kind)}"


def _operation(where: str, operation: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    parameters = operation.get("parameters", [])
    needs = [one["name"] for one in parameters if one.get("required")] + ["a body"] * bool(wanted.get("required"))
    yield f"{where} needs: {', '.join(needs) or 'nothing'}"
    yield from (f"{where} takes {one['in']} {one['name']}: {type_text(one['schema'])}" for one in parameters)
    yield from (f"{where} takes {kind}: {_name(one['schema'])}" for kind, one in wanted.get("content", {}).items())
    for status, answer in operation["responses"].items():
        if status < "4":
            content = answer.get("content", {"nothing": {"schema": {}}})
            yield from (f"{where} answers {status} {kind}: {_name(one['schema'])}" for kind, one in content.items())
        else:
            yield from (f"problem {code}: {status}" for code in re.findall(r"`([a-z-]+)`: ", answer["description"]))


def _name(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", schema.get("type", ""))).rpartition("/")[2]


def _command(name: str, command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        choices = f" {'|'.join(parameter.type.choices)}" if isinstance(parameter.type, click.Choice) else ""
        takes = "" if getattr(parameter, "is_flag", False) else choices or " VALUE"
        for option in parameter.opts + parameter.secondary_opts:
            yield f"{name} {option if option.startswith('-') else option.upper()}{takes}"
    yield f"{name} needs: {', '.join(str(one.name) for one in command.params if one.required) or 'nothing'}"


def _exit_codes() -> Iterator[str]:
    # Listed under the modules' names in version 1.0.
    for label, module in (
        ("configured", configured),
        ("exits", exits),
        ("servicecommands", lists),
        ("servicecommands", status_command),
    ):
        for name, value in vars(module).items():
            if name.isupper() and isinstance(value, int) and (module is exits or "EXIT" in name):
                yield f"{label}: {name.removeprefix('_')} {int(value)}"


def _metrics() -> Iterator[str]:
    yield START_TIME
    for path in (ROOT / "tmpmaild").rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if _MEASURE.search(text) else ():
            if isinstance(node, ast.Call) and _MEASURE.fullmatch(getattr(node.func, "id", "") + "("):
                name, *others = [*node.args, *(keyword.value for keyword in node.keywords)]
                labels = [ast.literal_eval(one) for one in others if isinstance(one, ast.Tuple)]
                yield f"tmpmaild_{ast.literal_eval(name)}{''.join(f'{{{one}}}' for one in labels[0]) if labels else ''}"


def _plugin() -> Iterator[str]:
    parser = pytest.Parser(_ispytest=True)
    pytest_plugin.pytest_addoption(parser)
    group = parser.getgroup("tmpmaild")
    yield from (f"option {name}" for option in group.options for name in option.names())
    yield from (f"ini {name}" for name in parser._inidict)  # noqa: SLF001 - pytest has no public API for this
    for name, value in vars(pytest_plugin).items():
        if type(value).__name__ == "FixtureFunctionDefinition" and not name.startswith("_"):
            yield f"fixture {name}"


def members(name: str, value: Any) -> Iterator[str]:
    """Yield the public attributes of a client class, and the parameters of its methods.

    The synchronous classes are generated from the asynchronous classes, so both have the same attributes.
    """
    yield name
    if not inspect.isclass(value) or name.startswith("Async"):
        return
    made_by_users = {"__init__"} if value is client.Client else set()
    for base in (one for one in value.__mro__ if one.__module__.startswith("tmpmaild")):
        for member in {*vars(base), *getattr(base, "__annotations__", {})}:
            if member in made_by_users or not member.startswith("_"):
                yield from _parameters(f"{name}.{member}", inspect.getattr_static(base, member, None))


def _parameters(where: str, member: Any) -> Iterator[str]:
    member = getattr(member, "__func__", member)
    if not inspect.isfunction(member):
        yield where
        return
    parameters = list(inspect.signature(member).parameters.values())[1:]
    needed = [one.name for one in parameters if one.default is one.empty and one.kind not in _ANY_NUMBER]
    yield f"{where} needs: {', '.join(needed) or 'nothing'}"
    for place, one in enumerate(parameters, 1):
        yield f"{where} takes {f'{place}, ' * (one.kind == one.POSITIONAL_OR_KEYWORD)}{one.name}"


def _typescript() -> Iterator[str]:
    """Yield the modules of the package, their exports, and the members of the exports."""
    members = {}
    for path in sorted((_TYPESCRIPT / "src").glob("*.ts")):  # independent of the file system order
        for _, name, body in _EXPORT.findall(path.read_text("utf-8")):
            members[name] = [f"{member}{mark}" for member, mark in _MEMBER.findall(body) if member != "constructor"]
    for module in json.loads((_TYPESCRIPT / "package.json").read_text("utf-8"))["exports"]:
        yield module
        path = _TYPESCRIPT / "src" / f"{Path(module).name or 'index'}.ts"
        text = path.read_text("utf-8") if path.exists() else ""
        listed = (one.split()[-1] for some in _REEXPORT.findall(text) for one in some.split(",") if one.strip())
        for name in (*listed, *(name for _, name, _ in _EXPORT.findall(text))):
            yield f"{module} {name}"
            yield from (f"{module} {name}.{member}" for member in members.get(name, ()))


if __name__ == "__main__":
    configuration.write()
    typescript_types.write()
    known = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
    both = {subject: sorted({*known.get(subject, ()), *some}) for subject, some in lines().items()}
    RECORDED.write_text(json.dumps(both, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
