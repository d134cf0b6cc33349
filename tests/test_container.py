"""Checks of Containerfile, compose.yaml and docs/proxy that need no build and no running service."""

import json
import re

import pytest
import yaml

import chroot_image
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import validators_by_key

ROOT = chroot_image.ROOT
STEPS = list(chroot_image.steps((ROOT / "Containerfile").read_text()))
LAST_STAGE = STEPS[max(place for place, (name, _) in enumerate(STEPS) if name == "FROM") :]
SETTINGS = dict(LAST_STAGE)
ENV = dict(rest.split("=", 1) for name, rest in LAST_STAGE if name == "ENV")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
OURS, CADDY = COMPOSE["services"]["tmpmaild"], COMPOSE["services"]["caddy"]


def port(listen):
    return listen.rpartition(":")[2]


def test_the_script_supports_every_instruction():
    known = {"FROM", "COPY", "RUN", *chroot_image._CONFIGURES}
    assert {name for name, _ in STEPS} <= known


def test_ports_and_volume_are_the_same_everywhere():
    http, smtp = port(ENV["TMPMAILD_HTTP__LISTEN"]), port(ENV["TMPMAILD_SMTP__LISTEN"])
    assert set(SETTINGS["EXPOSE"].split()) == {http, smtp}
    assert OURS["ports"] == [f"25:{smtp}"]
    assert CADDY["environment"]["UPSTREAM"] == f"tmpmaild:{http}"
    (volume,) = json.loads(SETTINGS["VOLUME"])
    assert OURS["volumes"] == [f"mail:{volume}"]
    assert SETTINGS["WORKDIR"] == volume
    assert set(COMPOSE["volumes"]) == {one.split(":")[0] for one in OURS["volumes"] + CADDY["volumes"] if one[0] != "."}


def test_settings_from_the_environment_are_keys_of_the_configuration():
    named = [name for name in ENV | OURS["environment"] if name.startswith("TMPMAILD_")]
    keys = [name.removeprefix("TMPMAILD_").lower().replace("__", ".") for name in named]
    assert len(keys) > 6
    assert set(keys) <= set(validators_by_key())


def test_a_database_server_and_a_resolver_can_be_set_by_variables_alone():
    given = {name: value for name, value in ENV.items() if name.startswith("TMPMAILD_")}
    config = configfile.load(None, {**given, "TMPMAILD_STORAGE__URL": "postgresql://tmpmaild@db.example.org/tmpmaild"})
    assert config.storage.url
    assert any(name == "RUN" and "[postgresql,senders]" in rest for name, rest in STEPS)


def test_only_caddy_is_trusted_to_name_the_client():
    address = CADDY["networks"]["default"]["ipv4_address"]
    assert OURS["environment"]["TMPMAILD_HTTP__TRUSTED_PROXIES"] == f"{address}/32"
    assert set(re.findall(r"\{\$(\w+)", (ROOT / "docs/proxy/Caddyfile").read_text())) == set(CADDY["environment"])


def test_the_image_runs_the_daemon_directly_as_an_unprivileged_user_with_a_health_check():
    assert json.loads(SETTINGS["ENTRYPOINT"] + "\n") == ["/opt/tmpmaild/bin/tmpmaild"]
    assert json.loads(SETTINGS["CMD"]) == ["serve"]
    assert f"http://{ENV['TMPMAILD_METRICS__LISTEN']}/readyz" in SETTINGS["HEALTHCHECK"]
    uid, _, gid = SETTINGS["USER"].partition(":")
    assert 0 not in (int(uid), int(gid))


@pytest.mark.parametrize("name", [".containerignore", ".dockerignore"])
def test_only_copied_files_are_not_ignored(name):
    lines = (ROOT / name).read_text().splitlines()
    copied = [rest.split()[:-1] for step, rest in STEPS if step == "COPY" and "--from=" not in rest]
    assert "*" in lines
    assert {one[1:] for one in lines if one.startswith("!")} == {file for files in copied for file in files}


def test_every_mounted_file_exists():
    mounted = [one.split(":")[0] for one in CADDY["volumes"] if one.startswith("./")]
    assert mounted
    assert [one for one in mounted if not (ROOT / one).is_file()] == []
