"""The documented metrics of each storage engine, and the metrics that each alert rule and panel uses."""

import json
import re
from pathlib import Path

import yaml

DOCS = Path(__file__).parents[2] / "docs"
ENGINES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}

_row = re.compile(r"^(?:#+ (?P<heading>.+)|\| `(?P<metric>(?:tmpmaild|process)_\w+)`.*)$", re.MULTILINE)
_name = re.compile(r"\b(?:tmpmaild|process)_[a-z_]+")


def described(engine):
    """Return an engine's metrics: all metrics except those under a heading with the other engine's name."""
    (other,) = [title for name, title in ENGINES.items() if name != engine]
    found, heading = set(), ""
    for row in _row.finditer((DOCS / "metrics.md").read_text()):
        heading = row["heading"] or heading
        if row["metric"] and f"({other})" not in heading:
            found.add(row["metric"])
    return found


def watched():
    """Yield the name, the engines and the metrics of each rule and each panel."""
    for group in yaml.safe_load((DOCS / "monitoring/alerts.yml").read_text())["groups"]:
        engines = [engine for engine in ENGINES if group["name"].endswith(f"-{engine}")] or list(ENGINES)
        for rule in group["rules"]:
            yield rule["alert"], engines, _metrics(rule["expr"])
    for panel in json.loads((DOCS / "monitoring/grafana.json").read_text())["panels"]:
        engines = [name for name, title in ENGINES.items() if panel["title"].startswith(f"{title}:")] or list(ENGINES)
        yield panel["title"], engines, _metrics(" ".join(target["expr"] for target in panel["targets"]))


def _metrics(expression):
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in _name.findall(expression)}
