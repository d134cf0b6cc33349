"""The browser extension without a browser: its rules, texts, permissions and archives."""

import hashlib
import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

import extension
from tmpmaild import __version__

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "clients/browser"
WEB = ROOT / "tmpmaild/web"
MANIFEST = json.loads((SOURCE / "manifest.json").read_text())
LANGUAGES = {"pt-BR": "pt_BR", "zh": "zh_CN"}
SCRIPTS = {path.name: path.read_text() for path in SOURCE.glob("*.js")}
PAGES = {path.name: path.read_text() for path in SOURCE.glob("*.html")}
# Forbidden calls, which turn text into markup or code, add listeners to pages, or store data that leaves the machine.
FORBIDDEN = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|setHTML|createContextualFragment|\beval\b"
    r"|new Function|importScripts|\bonMessage\b|onMessageExternal|onConnect|storage\.sync|registerContentScripts"
    r"|console\.|postMessage|world:"
)


@pytest.mark.needs("node")
def test_its_own_tests_pass():
    files = sorted(map(str, ROOT.glob("tests/clients/browser/*.test.mjs")))
    done = subprocess.run(["node", "--test", *files], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def words(folder):
    told = json.loads((SOURCE / "_locales" / folder / "messages.json").read_text())
    return {key: message["message"] for key, message in told.items()}


def test_every_language_of_the_web_inbox_has_every_sentence_with_the_same_values():
    folders = {LANGUAGES.get(path.stem, path.stem) for path in (WEB / "messages").glob("*.js")}
    assert {path.name for path in (SOURCE / "_locales").iterdir()} == folders
    assert len(folders) == 14
    english = words("en")
    singular = {key for key in english if not key.startswith("error_rate_limited")}
    for folder in folders:
        told = words(folder)
        assert {key for key in told if not key.startswith("error_rate_limited")} == singular, folder
        assert "error_rate_limited_other" in told, folder
        differing = [key for key in singular if values(told[key]) != values(english[key])]
        assert differing == [], folder
        assert len(told["description"]) <= 132, folder  # the Chrome Web Store's limit


def values(text):
    return sorted(set(re.findall(r"\$\d", text)))


def test_texts_shared_with_the_web_inbox_are_the_same():
    for path in (WEB / "messages").glob("*.js"):
        source = path.read_text()
        told = words(LANGUAGES.get(path.stem, path.stem))
        same = [key for key in told if f"\n  {key}: " in source or f'\n  "{key.replace("_", "-")}": ' in source]
        assert len(same) == 17, path.name
        for key in same:
            name = re.escape(key.replace("_", "-"))
            (said,) = re.findall(rf'^  "?{name}"?: "(.*)",$', source, re.MULTILINE)
            assert told[key] == re.sub(r"\{\w+\}", "$1", said), (path.name, key)


def test_every_text_is_used_and_every_used_text_exists():
    sources = "".join((*SCRIPTS.values(), *PAGES.values(), json.dumps(MANIFEST)))
    keys = {re.sub(r"_(one|two|few|many|other)$", "", key) for key in words("en") if key.startswith("error_rate")}
    keys |= {key for key in words("en") if not key.startswith("error_rate")}
    assert [key for key in keys if not re.search(rf"\b{key}\b|_MSG_{key}__", sources)] == []
    asked = re.findall(r'(?:\bt\(|Fault\(|data-t=|why: |key: )"([a-z_]+)"', sources)
    assert len(asked) > 25
    assert set(asked) - keys == set()


def test_it_requests_only_the_documented_permissions():
    assert MANIFEST["permissions"] == ["activeTab", "alarms", "contextMenus", "scripting", "storage"]
    assert MANIFEST["optional_host_permissions"] == ["https://*/*", "http://localhost/*", "http://127.0.0.1/*"]
    keys = {"host_permissions", "content_scripts", "web_accessible_resources", "externally_connectable"}
    assert keys & MANIFEST.keys() == set()
    # Normal and private windows share one state, because Firefox does not support "split".
    assert MANIFEST["incognito"] == "spanning"
    assert MANIFEST["version"] == __version__
    told = (ROOT / "docs/extension.md").read_text()
    assert [name for name in MANIFEST["permissions"] if f"`{name}`" not in told] == []


def test_its_policy_lets_no_script_or_markup_in():
    (policy,) = MANIFEST["content_security_policy"].values()
    assert "unsafe" not in policy
    assert {"default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"} <= set(policy.split("; "))
    assert [(name, re.findall(FORBIDDEN, text)) for name, text in SCRIPTS.items() if re.search(FORBIDDEN, text)] == []
    inline = r"<script(?! type=\"module\" src=)|<style|\son\w+=|style=|https?:(?!//tmp\.example\.org)"
    assert [name for name, text in PAGES.items() if re.search(inline, text)] == []


def test_the_extension_is_small_and_needs_no_other_package():
    lines = [len(text.splitlines()) for text in (*SCRIPTS.values(), *PAGES.values())]
    others = [len((SOURCE / name).read_text().splitlines()) for name in ("manifest.json", "style.css")]
    assert sum(lines) + sum(others) <= 1200
    imported = re.findall(r'(?:from|import) "([^"]+)"', "".join(SCRIPTS.values()))
    assert [name for name in imported if not name.startswith("./")] == []


def test_the_event_parser_is_the_same_as_in_the_web_inbox():
    _, parser = SCRIPTS["eventstream.js"].split("\n\n", 1)
    assert parser in (WEB / "following.js").read_text()


def test_the_archives_are_reproducible_and_contain_the_running_files(tmp_path):
    sums = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        built = extension.build(tmp_path / name)
        sums.append([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in built])
    assert sums[0] == sums[1]
    assert [name for name, _ in sums[0]] == [f"tmpmaild-{__version__}-{one}.zip" for one in ("chromium", "firefox")]
    with zipfile.ZipFile(tmp_path / f"one/tmpmaild-{__version__}-firefox.zip") as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert {"manifest.json", "popup.html", "_locales/en/messages.json", "icons/128.png"} <= set(names)
        assert not [name for name in names if name.startswith("store") or name.endswith(".md")]
        assert json.loads(archive.read("manifest.json"))["background"] == {
            "scripts": ["background.js"],
            "type": "module",
        }


def test_a_store_finds_the_required_files():
    store = SOURCE / "store"
    assert {"description.md", "privacy.md"} <= {path.name for path in store.iterdir()}
    pictures = sorted(store.glob("*.png"))
    assert len(pictures) >= 4
    assert {size_of(path) for path in pictures} == {(1280, 800)}
    for size, name in MANIFEST["icons"].items():
        assert size_of(SOURCE / name) == (int(size), int(size))


def size_of(path):
    octets = path.read_bytes()
    assert octets.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(octets[16:20]), int.from_bytes(octets[20:24])
