"""What the files of the web pages may hold: little, of our own, no markup and no code made of text."""

import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tmpmaild.http import streams
from tmpmaild.http.app import OPERATIONS
from tmpmaild.http.files import docs_files, join, minify_script, web_files

ROOT = Path(__file__).parents[2]
WEB = ROOT / "tmpmaild/web"
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
TEXTS = {str(path.relative_to(WEB)): path.read_text() for path in sorted(WEB.rglob("*.*")) if path.suffix != ".png"}
PAGES = {name: text for name, text in TEXTS.items() if name.endswith(".html")}
SCRIPTS = {name: text for name, text in TEXTS.items() if name.endswith(".js")}
MODULES = {name: text for name, text in SCRIPTS.items() if not name.startswith("messages/")}
STYLES = {name: text for name, text in TEXTS.items() if name.endswith(".css")}
DOCS_STYLE = "docs.css"

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
later_imports = re.compile(r"""\bimport\(\s*["'`]([^"'`]*)["'`]""").findall
asked_words = re.compile(r"""(?<![\w.$])t\(\s*"([^"]+)"|data-(?:t|label)="([^"]+)\"""").findall
strings = re.compile(r'("(?:[^"\\]|\\.)*")').split


class References(HTMLParser):
    """Collects what a page refers to, and the modules that it fetches ahead."""

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
    """The code and style that each visit loads, that is; comments, markup and words come on top."""
    loaded = {"app.js": join(WEB, "app")["app"]} | {name: text for name, text in STYLES.items() if name != DOCS_STYLE}
    assert sum(len(without_comments(name, text).encode()) for name, text in loaded.items()) < 155_000
    assert (WEB / DOCS_STYLE).stat().st_size < 6_000


@pytest.mark.parametrize("name", PAGES)
def test_a_page_refers_to_what_is_there_and_ours(name):
    """Ours is the repository too, for what the server has not: nothing is loaded from there."""
    documents = {f"{REPOSITORY}/blob/main/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    known = own_paths | documents | {operation.path.removeprefix("/") for operation in OPERATIONS}
    referred = [one for one in References(PAGES[name]).all if not one.startswith(("data:image/svg+xml,", "#"))]
    assert [one for one in referred if one not in known] == []
    assert referred


def test_a_script_names_no_other_host_and_loads_by_fetch_alone():
    assert {name: found for name, text in SCRIPTS.items() if (found := elsewhere(text))} == {}
    assert {name: found for name, text in SCRIPTS.items() if (found := other_loaders(text))} == {}
    assert [name for name, text in MODULES.items() if re.search(r"\bfetch\(", text)] == ["api.js", "worker.js"]


def test_the_page_waits_longer_than_a_heartbeat_and_notices_a_silent_line_within_ten_seconds():
    [silence] = re.findall(r"silenceMs: ([\d_]+)", TEXTS["following.js"])
    assert 1000 * streams.HEARTBEAT_SECONDS + 1000 < int(silence) <= 10_000


@pytest.mark.parametrize("name", STYLES)
def test_a_style_sheet_loads_nothing(name):
    assert not foreign_style(STYLES[name])


def test_no_script_makes_markup_or_code_of_text():
    assert {name: found for name, text in SCRIPTS.items() if (found := markup_sink(text))} == {}
    assert {name: found for name, text in TEXTS.items() if (found := from_the_root(text))} == {}


@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_scripts_or_styles_in_it(name):
    assert not inline_markup(PAGES[name])


def test_every_import_names_a_file_that_is_served():
    imports = [(name, one) for name, text in SCRIPTS.items() for one in static_imports(text) + later_imports(text)]
    assert [(name, one) for name, one in imports if not one.startswith("./")] == []
    assert [(name, one) for name, one in imports if "web/" + one.removeprefix("./") not in own_paths] == []


def test_the_page_fetches_ahead_what_its_joined_script_imports():
    """So nothing is asked for only when something else that was asked for has come."""
    joined = {name: minify_script(text) for name, text in join(WEB, "app").items()}
    assert References(TEXTS["index.html"]).preloaded == ["web/messages.js"]
    assert static_imports(joined.pop("app")) == ["./messages.js"]
    assert {one for text in joined.values() for one in static_imports(text)} == {"./app.js"}


def test_every_module_is_part_of_one_script():
    joined = "".join(join(WEB, "app").values())
    exported = [name for text in MODULES.values() for name in exports(text)]
    declared = re.findall(r"^(?:const|class|(?:async )?function) (\w+)", joined, re.MULTILINE)
    assert [name for name in exported if declared.count(name) != 1] == []


def test_what_the_manifest_refers_to_is_there():
    manifest = json.loads(TEXTS["manifest.webmanifest"])
    assert {icon["src"] for icon in manifest["icons"]} <= own_paths
    assert [manifest[name] for name in ("start_url", "scope", "display")] == [".", ".", "standalone"]


def test_the_worker_keeps_what_the_page_loads_and_nothing_that_comes():
    worker = TEXTS["worker.js"]
    [kept] = re.findall(r"^const FILES = \[(.+?)\]", worker, re.MULTILINE)
    loaded = [one for one in References(TEXTS["index.html"]).all if one.endswith((".css", ".js"))]
    assert sorted(re.findall(r'"(.*?)"', kept)) == sorted(["", *loaded])
    assert re.findall(r"\.(?:put|add|addAll)\(\w*\)", worker) == [".addAll(FILES)"]
    assert not re.search(r'"push"', worker)


def messages(language):
    """Read the words of a language: an object literal has bare names, comments and last commas, which JSON has not."""
    text = re.sub(r"^\s*//.*$", "", SCRIPTS[f"messages/{language}.js"], flags=re.MULTILINE)
    pieces = strings(text.partition("export default")[2])
    for index in range(0, len(pieces), 2):
        named = re.sub(r"([\w$]+)\s*:", r'"\1":', re.sub(r"//.*|;\s*$", "", pieces[index]))
        pieces[index] = re.sub(r",(\s*[}\]])", r"\1", named)
    return json.loads("".join(pieces))


def forms(message):
    """Return the plural forms of a message by their categories; one without has the form "other" alone."""
    return {"other": message} if isinstance(message, str) else message


def placeholders(text):
    return set(re.findall(r"\{(\w+)\}", text))


LANGUAGES = [path.stem for path in sorted((WEB / "messages").iterdir())]
# The categories of CLDR in which whole numbers up to a million fall, besides "other"; and those of one number only.
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


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_the_same_with_the_same_names_in_it(language):
    ours, english = messages(language), messages("en")
    assert ours["language"] == language
    assert list(ours) == list(english)
    named = {key: set().union(*map(placeholders, forms(english[key]).values())) for key in english}
    counted = {key for key in english if not isinstance(english[key], str)}
    assert {key for key in ours if not isinstance(ours[key], str)} == counted
    for key, message in ours.items():
        for category, text in forms(message).items():
            # A form that one number alone has may say it in words.
            spared = {"n"} if key in counted and category in EXACT.get(language, "").split() else set()
            assert (key, category, placeholders(text) | spared) == (key, category, named[key] | spared)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_plural_has_the_forms_of_its_language(language):
    needed = {*CATEGORIES[language].split(), "other"}
    for key, message in messages(language).items():
        if not isinstance(message, str):
            assert (key, message.keys() - {OPTIONAL.get(language)}) == (key, needed)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_message_is_text_without_markup_and_signs_that_nobody_sees(language):
    texts = [(key, text) for key, message in messages(language).items() for text in forms(message).values()]
    assert [(key, text) for key, text in texts if not text or no_text_of_ours(text)] == []


def test_every_word_that_the_inbox_asks_for_is_there():
    asked = {one or other for text in [*MODULES.values(), TEXTS["index.html"]] for one, other in asked_words(text)}
    assert sorted(asked - messages("en").keys()) == []


def test_no_word_and_no_drawing_is_left_over_and_no_word_is_there_twice():
    page = TEXTS["index.html"]
    code = "\n".join([*MODULES.values(), re.sub(r'<symbol id="[\w-]+"', "", page)])
    families = ("language", *re.findall(r"`([\w-]+-)\$\{", code))
    used = {*re.findall(r'(?="([\w-]+)")', code), *re.findall(r"(?<![\w-])([\w-]+):", code)}
    assert [key for key in messages("en") if key not in used and not key.startswith(families)] == []
    drawings = re.findall(r'<symbol id="i-([\w-]+)"', page)
    assert [one for one in drawings if f'"{one}"' not in code and f"#i-{one}" not in code] == []
    for language in LANGUAGES:
        keys = re.findall(r'^  "?([\w-]+)"?:', SCRIPTS[f"messages/{language}.js"], re.MULTILINE)
        assert sorted(keys) == sorted(messages(language))
