"""The findings as text for a person, or as JSON."""

import json
from collections.abc import Sequence

from msgspec.structs import asdict

from tmpmaild.cli.doctor.findings import Finding
from tmpmaild.cli.doctor.records import Record, zone
from tmpmaild.cli.terminal import shown

_LEVEL_COLUMNS = 9
_NOTE = "; The last three say that nobody sends mail from a domain: leave them out where somebody does."


def text(findings: Sequence[Finding], records: Sequence[Record]) -> str:
    """Return a line for each finding, the records to publish, and a summary."""
    lines = [_line(finding) for finding in findings]
    if records:
        lines += ["", "DNS records to publish:", *(f"  {line}" for line in zone(records)), f"  {_NOTE}", ""]
    lines.append(_summary(findings))
    return "\n".join(lines)


def as_json(findings: Sequence[Finding], records: Sequence[Record]) -> str:
    """Return one JSON object."""
    return json.dumps(
        {
            "ok": not has_problem(findings),
            "findings": [asdict(finding) for finding in findings],
            "records": [asdict(record) for record in records],
        }
    )


def has_problem(findings: Sequence[Finding]) -> bool:
    """Return whether something does not work or is not safe."""
    return any(finding.level == "problem" for finding in findings)


def _line(finding: Finding) -> str:
    advice = f" -> {finding.advice}" if finding.advice else ""
    return shown(f"{finding.level:<{_LEVEL_COLUMNS}}{finding.check}: {finding.text}{advice}")


def _summary(findings: Sequence[Finding]) -> str:
    counts = [(sum(finding.level == level for finding in findings), level) for level in ("problem", "warning")]
    return ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for count, level in counts)
