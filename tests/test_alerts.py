"""Each rule of docs/monitoring/alerts.yml fires when it should and not earlier, according to Prometheus."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

import peers

RULES = Path(__file__).parents[1] / "docs/monitoring/alerts.yml"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
JOB = {"job": "tmpmaild", "instance": "one:9025"}
# The values of each metric per minute: in normal operation, and in case of a problem. 2592000 s are 30 days. "+60x30"
# means 30 more minutes, each of which adds 60.
CASES = {
    "TmpmaildDown": [("up", {}, "1x60", "0x60")],
    "TmpmaildRestarts": [("process_start_time_seconds", {}, "100x60", "100+60x60"), ("up", {}, "1x60", "1x60")],
    "TmpmaildCertificateExpires": [
        ("tmpmaild_smtp_certificate_expires_timestamp_seconds", {}, "2592000x120", "864000x120")
    ],
    "TmpmaildClockJumps": [("tmpmaild_clock_jumps_total", {}, "3x60", "0x20 1x40")],
    "TmpmaildStorageFull": [("tmpmaild_storage_has_room", {}, "1x60", "0x60")],
    "TmpmaildStorageNearlyFull": [
        ("tmpmaild_storage_used_bytes", {}, "50x60", "90x60"),
        ("tmpmaild_storage_max_bytes", {}, "100x60", "100x60"),
    ],
    "TmpmaildWritesFail": [("tmpmaild_storage_failed_batches_total", {}, "1x60", "0+1x60")],
    "TmpmaildFaults": [("tmpmaild_smtp_mails_total", {"status": "4.3.0"}, "7x60", "0+1x60")],
    "TmpmaildSweepLate": [("tmpmaild_sweep_age_seconds", {}, "30x60", "200x60")],
    "TmpmaildNotErased": [("tmpmaild_sweep_unerased_seconds", {}, "0x60", "400x60")],
    "TmpmaildSlowStore": [
        ("tmpmaild_smtp_store_seconds_bucket", {"le": "0.1"}, "0+60x60", "0x60"),
        ("tmpmaild_smtp_store_seconds_bucket", {"le": "0.25"}, "0+60x60", "0+60x60"),
        ("tmpmaild_smtp_store_seconds_bucket", {"le": "+Inf"}, "0+60x60", "0+60x60"),
    ],
    "TmpmaildSendersTurnedAway": [
        ("tmpmaild_smtp_refused_connections_total", {"limit": "max_connections"}, "5x60", "0+1x60")
    ],
    "TmpmaildResolverSilent": [("tmpmaild_senders_resolver_silent_total", {}, "1x60", "0+1x60")],
    "TmpmaildWebhooksLate": [("tmpmaild_webhooks_oldest_seconds", {}, "10x60", "1000x60")],
    "TmpmaildWalGrows": [("tmpmaild_storage_wal_bytes", {}, "4000000x60", "200000000x60")],
    "TmpmaildConnectionsBreak": [("tmpmaild_storage_connects_total", {}, "8x60", "0+4x60")],
    "TmpmaildClockWrong": [("tmpmaild_storage_clock_offset_seconds", {}, "0.1x60", "-30x60")],
    "TmpmaildPostmasterFull": [("tmpmaild_postmaster_used_ratio", {}, "0.2x60", "0.9x60")],
}
WITHOUT_INSTANCE = {"TmpmaildFaults"}  # This rule sums over instances.
# Cases in addition to the table: a daemon that is up only briefly, and the first fault of its kind.
ALSO = [
    ("TmpmaildPostmasterFull", [("tmpmaild_postmaster_given_way_total", {}, "0x10 0+1x50")], 30),
    ("TmpmaildRestarts", [("up", {}, "1x40 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1")], 55),
    ("TmpmaildFaults", [("tmpmaild_http_requests_total", {"status": "500"}, "_x58 1x5")], 60),
]


def series(name, labels):
    pairs = ",".join(f'{key}="{value}"' for key, value in {**JOB, **labels}.items())
    return f"{name}{{{pairs}}}"


def a_test(alert, inputs, *, minutes, fires, labels=None):
    rule = ALERTS[alert]
    name, more, _ = inputs[0]
    found = {**JOB, **{key: value for key, value in more.items() if key != "le"}}
    found = {} if alert in WITHOUT_INSTANCE else found if labels is None else labels
    expected = {"exp_labels": {**found, **rule["labels"]}, "exp_annotations": rule["annotations"]}
    return {
        "name": f"{alert}: {name}",
        "interval": "1m",
        "input_series": [{"series": series(name, labels), "values": values} for name, labels, values in inputs],
        "alert_rule_test": [
            {"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": [expected] if fires else []}
        ],
    }


@pytest.mark.needs("prometheus")
def test_each_rule_fires_when_it_should_and_not_earlier(tmp_path):
    tests = []
    for alert, numbers in CASES.items():
        minutes = 90 if ALERTS[alert].get("for") == "1h" else 50 if alert == "TmpmaildClockJumps" else 30
        for place, fires in ((2, False), (3, True)):
            inputs = [(number[0], number[1], number[place]) for number in numbers]
            tests.append(a_test(alert, inputs, minutes=minutes, fires=fires))
    tests += [a_test(alert, inputs, minutes=minutes, fires=True) for alert, inputs, minutes in ALSO]
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    promtool = peers.which("promtool")
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_rule_has_a_severity_and_a_test():
    assert CASES.keys() == ALERTS.keys()
    assert {rule["labels"]["severity"] for rule in ALERTS.values()} == {"critical", "warning"}


def test_the_lines_in_the_dashboard_are_limits_of_rules():
    panels = json.loads(RULES.with_name("grafana.json").read_text())["panels"]
    drawn = [panel["fieldConfig"]["defaults"].get("thresholds", {"steps": []})["steps"][1:] for panel in panels]
    limits = {float(number) for rule in ALERTS.values() for number in re.findall(r"> ([\d.e]+)", rule["expr"])}
    assert {0.1, 0.8} < {abs(step["value"]) for steps in drawn for step in steps} <= limits
