"""The files of the web pages are small, contain no third-party code, and build no code or markup from text."""

import json
import re
import tomllib
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest
from starlette.requests import Request

from tmpmaild.http import streams
from tmpmaild.http.app import OPERATIONS
from tmpmaild.http.bundling import join, minify_script
from tmpmaild.http.files import CatcherPage, catcher_files, docs_files, web_files
from tmpmaild.mail.addresses import LocalPartError, check_local_part

ROOT = Path(__file__).parents[2]
WEB = ROOT / "tmpmaild/web"
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
TEXTS = {str(path.relative_to(WEB)): path.read_text() for path in sorted(WEB.rglob("*.*")) if path.suffix != ".png"}
PAGES = {name: text for name, text in TEXTS.items() if name.endswith(".html")}
SCRIPTS = {name: text for name, text in TEXTS.items() if name.endswith(".js")}
MODULES = {name: text for name, text in SCRIPTS.items() if not name.startswith(("messages/", "catcher/messages/"))}
STYLES = {name: text for name, text in TEXTS.items() if name.endswith(".css")}
DOCS_STYLE = "docs.css"
CATCHER_STYLE = "catcher/catcher.css"
ENTRIES = ("app", "catcher")
"""The entry modules of the pages: the inbox page, and the page for all messages of a catcher."""
CATCHER_FILES = catcher_files(3600, CatcherPage("127.0.0.1:1025", is_public=True))

own_paths = {
    re.sub("^/(web/)?[0-9a-f]{16}/", r"\1", path).removeprefix("/") for path in docs_files(b"") | web_files().loaded
}
elsewhere = re.compile(r"""["'`](?:(?!http://www\.w3\.org/2000/svg["'])https?:)?//[\w\[]""").search
other_loaders = re.compile(r"WebSocket|EventSource|XMLHttpRequest|sendBeacon|importScripts").search
foreign_style = re.compile(r"""@import|url\((?!["']?(?:data:|#))""").search
from_the_root = re.compile(r"""["'`(]/(?:docs|api|web|view|problems)\b""").search
markup_sink = re.compile(
    r"\b(?:inner|outer)HTML|insertAdjacentHTML|\bsetHTML|parseFromString|createContextualFragment"
    r"|\bdocument\.write|\beval\b|\bFunction\(|\bsrcdoc\b|javascript:|setAttribute\([\"'](?:style|on)|cssText"
).search
inline_markup = re.compile(r"""<[^>]*\s(?:on\w+|style)\s*=|<style|<script(?![^>]*\ssrc=)|javascript:""").search
static_imports = re.compile(
    r"""^(?:import\b[^"';()]*|export\b[^"';=()]*\bfrom\s*)["']([^"']+)["']""", re.MULTILINE
).findall
exports = re.compile(r"^export (?:const|class|function|async function) (\w+)", re.MULTILINE).findall
later_imports = re.compile(r"(?<!function )\blater\((.*?)\)").findall
asked_words = re.compile(r"""(?<![\w.$])t\(\s*"([^"]+)"|data-(?:t|label)="([^"]+)\"""").findall
strings = re.compile(r'("(?:[^"\\]|\\.)*")').split


class References(HTMLParser):
    """Collects a page's references, and the modules it preloads."""

    def __init__(self, text):
        super().__init__()
        self.all, self.preloaded = [], []
        self.feed(text)

    def handle_starttag(self, _tag, attributes):
        given = dict(attributes)
        found = given.get("href") or given.get("src")
        if found:
            self.all.append(found)
        if given.get("rel") == "modulepreload":
            self.preloaded.append(found)


def without_comments(name, text):
    if name in STYLES:
        return re.sub(r"/\*.*?\*/\n*", "", text, flags=re.DOTALL)
    return re.sub(r"^\s*//.*\n|(?<=[;,{(]) //.*", "", text, flags=re.MULTILINE)


def test_the_inbox_and_the_style_of_the_description_are_small():
    """Counts only the code and style sheets that every visit loads, without comments, markup and texts."""
    styles = {name: text for name, text in STYLES.items() if name not in (DOCS_STYLE, CATCHER_STYLE)}
    loaded = {"app.js": join(WEB, "app")["app"]} | styles
    assert sum(len(without_comments(name, text).encode()) for name, text in loaded.items()) < 155_000
    assert (WEB / DOCS_STYLE).stat().st_size < 6_000


@pytest.mark.parametrize("name", PAGES)
def test_a_page_only_refers_to_our_existing_files(name):
    """Links may also lead to the repository, but no files are loaded from there."""
    documents = {f"{REPOSITORY}/blob/main/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    known = own_paths | documents | {"./"} | {operation.path.removeprefix("/") for operation in OPERATIONS}
    referred = [one for one in References(PAGES[name]).all if not one.startswith(("data:image/svg+xml,", "#"))]
    assert [one for one in referred if one not in known] == []
    assert referred or name != "index.html", "the parts of a page may refer to nothing"


def test_a_script_names_no_other_host_and_loads_only_with_fetch():
    assert {name: found for name, text in SCRIPTS.items() if (found := elsewhere(text))} == {}
    assert {name: found for name, text in SCRIPTS.items() if (found := other_loaders(text))} == {}
    assert [name for name, text in MODULES.items() if re.search(r"\bfetch\(", text)] == ["api.js", "worker.js"]


def test_the_page_waits_longer_than_a_heartbeat_and_notices_a_silent_connection_within_ten_seconds():
    [silence] = re.findall(r"silenceMs: ([\d_]+)", TEXTS["following.js"])
    assert 1000 * streams.HEARTBEAT_SECONDS + 1000 < int(silence) <= 10_000


@pytest.mark.parametrize("name", STYLES)
def test_a_style_sheet_loads_no_resources(name):
    assert not foreign_style(STYLES[name])


def test_no_script_turns_text_into_markup_or_code():
    assert {name: found for name, text in SCRIPTS.items() if (found := markup_sink(text))} == {}
    assert {name: found for name, text in TEXTS.items() if (found := from_the_root(text))} == {}


@pytest.mark.parametrize("name", PAGES)
def test_no_page_contains_inline_scripts_or_styles(name):
    assert not inline_markup(PAGES[name])


def test_every_import_names_a_file_that_is_served():
    imports = [(name, one) for name, text in SCRIPTS.items() for one in static_imports(text)]
    assert [(name, one) for name, one in imports if not one.startswith("./")] == []
    assert [(name, one) for name, one in imports if "web/" + one.removeprefix("./") not in own_paths] == []


def test_every_script_that_is_loaded_later_is_served():
    named = [one for text in SCRIPTS.values() for one in later_imports(text)]
    assert len(named) > 10
    assert {f"web/{json.loads(one)}.js" for one in named} - own_paths == set()
    assert [name for name, text in SCRIPTS.items() if "import(" in text] == ["api.js"]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_page_preloads_the_imports_of_its_joined_script(entry):
    """Without preloading, some requests would only start after other files have arrived."""
    joined = {name: minify_script(text) for name, text in join(WEB, entry).items()}
    assert References(TEXTS["index.html"]).preloaded == ["web/messages.js"]
    assert static_imports(joined.pop(entry)) == ["./messages.js"]
    assert {one for text in joined.values() for one in static_imports(text)} == {f"./{entry}.js"}


def test_every_module_is_part_of_one_script_of_a_page():
    exported = [name for text in MODULES.values() for name in exports(text)]
    unused = set(exported)
    for entry in ENTRIES:
        joined = "".join(join(WEB, entry).values())
        declared = re.findall(r"^(?:const|class|(?:async )?function) (\w+)", joined, re.MULTILINE)
        assert [name for name in exported if declared.count(name) > 1] == []
        unused -= set(declared)
    assert unused == set()


async def test_the_page_for_all_messages_loads_only_files_that_a_catcher_serves():
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": []})
    page = (await CATCHER_FILES["/"](request)).body.decode()
    assert page.startswith('<!doctype html>\n<html lang="en" data-smtp="127.0.0.1:1025" data-public>')
    loaded = [f"/{one}" for one in References(page).all if one.endswith((".js", ".css"))]
    assert len(loaded) == 3
    assert [one for one in loaded if one not in CATCHER_FILES] == []
    assert '<symbol id="i-link"' in page
    assert '<noscript>\n<div class="notice"' in page
    assert "expires after" not in page, "the messages of a catcher do not expire while it runs"
    worker = (await CATCHER_FILES["/worker.js"](request)).body.decode()
    assert [one for one in loaded if one[1:] not in worker] == []
    inbox = (await CATCHER_FILES["/inboxes"](request)).body.decode()
    assert 'href="./" data-t="all-mail"' in inbox
    assert [one for one in References(inbox).all if "/all/" in one] == []


def test_the_files_in_the_manifest_exist():
    manifest = json.loads(TEXTS["manifest.webmanifest"])
    assert {icon["src"] for icon in manifest["icons"]} <= own_paths
    assert [manifest[name] for name in ("start_url", "scope", "display")] == [".", ".", "standalone"]


def test_the_worker_caches_the_files_of_the_page_and_no_responses():
    worker = TEXTS["worker.js"]
    [kept] = re.findall(r"^const FILES = \[(.+?)\]", worker, re.MULTILINE)
    loaded = [one for one in References(TEXTS["index.html"]).all if one.endswith((".css", ".js"))]
    assert sorted(re.findall(r'"(.*?)"', kept)) == sorted(["", *loaded])
    assert re.findall(r"\.(?:put|add|addAll)\(\w*\)", worker) == [".addAll(FILES)"]
    assert not re.search(r'"push"', worker)


FOLDERS = pytest.mark.parametrize("folder", ["", "catcher/"])


def messages(language, folder=""):
    """Read the texts of a language: object literals have bare names, comments and trailing commas, unlike JSON."""
    text = re.sub(r"^\s*//.*$", "", SCRIPTS[f"{folder}messages/{language}.js"], flags=re.MULTILINE)
    pieces = strings(text.partition("export default")[2])
    for index in range(0, len(pieces), 2):
        named = re.sub(r"([\w$]+)\s*:", r'"\1":', re.sub(r"//.*|;\s*$", "", pieces[index]))
        pieces[index] = re.sub(r",(\s*[}\]])", r"\1", named)
    return json.loads("".join(pieces))


def forms(message):
    """Return a message's plural forms by category; a message without them only has the form "other"."""
    return {"other": message} if isinstance(message, str) else message


def placeholders(text):
    return set(re.findall(r"\{(\w+)\}", text))


LANGUAGES = [path.stem for path in sorted((WEB / "messages").iterdir())]
# The CLDR plural categories of whole numbers up to a million, except "other". EXACT contains the categories that match
# only a single number.
CATEGORIES = {
    **dict.fromkeys(["de", "en", "es", "fr", "hi", "it", "pt-BR", "tr"], "one"),
    **dict.fromkeys(["pl", "ru", "uk"], "one few many"),
    **dict.fromkeys(["ja", "zh"], ""),
    "ar": "one two few many",
}
OPTIONAL = {"ar": "zero"}
EXACT = {**dict.fromkeys(["de", "en", "es", "it", "pl", "tr"], "one"), "ar": "zero one two"}
no_text_of_ours = re.compile(
    r"</?\w|&#?\w+;|\.\.\.|^\s|\s$|  |[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
).search


@FOLDERS
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_texts_with_the_same_placeholders(language, folder):
    ours, english = messages(language, folder), messages("en", folder)
    assert folder or ours["language"] == language
    assert list(ours) == list(english)
    named = {key: set().union(*map(placeholders, forms(english[key]).values())) for key in english}
    counted = {key for key in english if not isinstance(english[key], str)}
    assert {key for key in ours if not isinstance(ours[key], str)} == counted
    for key, message in ours.items():
        for category, text in forms(message).items():
            # A form for a single number may spell out the number.
            spared = {"n"} if key in counted and category in EXACT.get(language, "").split() else set()
            assert (key, category, placeholders(text) | spared) == (key, category, named[key] | spared)


@FOLDERS
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_plural_has_the_forms_of_its_language(language, folder):
    needed = {*CATEGORIES[language].split(), "other"}
    for key, message in messages(language, folder).items():
        if not isinstance(message, str):
            assert (key, message.keys() - {OPTIONAL.get(language)}) == (key, needed)


@FOLDERS
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_has_no_markup_and_no_invisible_characters(language, folder):
    texts = [(key, text) for key, message in messages(language, folder).items() for text in forms(message).values()]
    assert [(key, text) for key, text in texts if not text or no_text_of_ours(text)] == []


def test_every_text_used_by_a_page_exists():
    """The page for all messages has the texts of the inbox page and a few more."""
    for entry, added in (("app", ""), ("catcher", "catcher/")):
        code = [*join(WEB, entry).values(), TEXTS["index.html"]]
        asked = {one or other for text in code for one, other in asked_words(text)}
        assert sorted(asked - messages("en").keys() - messages("en", added).keys()) == []


def test_no_text_and_no_drawing_is_unused_and_no_text_is_duplicated():
    page = TEXTS["index.html"]
    code = "\n".join([*MODULES.values(), re.sub(r'<symbol id="[\w-]+"', "", page)])
    families = ("language", *re.findall(r"`([\w-]+-)\$\{", code))
    used = {*re.findall(r'(?="([\w-]+)")', code), *re.findall(r"(?<![\w-])([\w-]+):", code)}
    known = [*messages("en"), *messages("en", "catcher/")]
    assert [key for key in known if key not in used and not key.startswith(families)] == []
    drawings = re.findall(r'<symbol id="i-([\w-]+)"', page)
    assert [one for one in drawings if f'"{one}"' not in code and f"#i-{one}" not in code] == []
    for folder, language in product(("", "catcher/"), LANGUAGES):
        keys = re.findall(r'^  "?([\w-]+)"?:', SCRIPTS[f"{folder}messages/{language}.js"], re.MULTILINE)
        assert sorted(keys) == sorted(messages(language, folder))


@pytest.mark.parametrize(("name", "key"), [("postmaster", "name-reserved"), ("two..dots", "name-form")])
def test_the_name_dialog_recognizes_the_errors_of_the_api(name, key):
    patterns = re.findall(r'\[/(\^[^/]+)/, "([\w-]+)"\]', SCRIPTS["namedialog.js"])
    with pytest.raises(LocalPartError) as refused:
        check_local_part(name)
    assert [known for pattern, known in patterns if re.search(pattern, str(refused.value))] == [key]
