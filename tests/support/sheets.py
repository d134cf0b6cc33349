"""Checks generated style sheets with a CSS parser, independently of the code that writes them."""

import re

import tinycss2

FUNCTIONS = frozenset(
    "rgb rgba hsl hsla hwb lab lch oklab oklch color color-mix light-dark calc min max clamp linear-gradient radial-gradient conic-gradient "
    "repeating-linear-gradient repeating-radial-gradient repeating-conic-gradient repeat minmax fit-content".split()
)
SELECTOR_FUNCTIONS = frozenset("where is not nth-child nth-last-child nth-of-type nth-last-of-type".split())
PLACED = re.compile(
    r"position|top|right|bottom|left|inset|z-index|transform|content|cursor|filter|animation.*|--.*|.*url.*"
)
MAX_DEPTH = 9
ASKED_FOR = (":root:has(#dark:target)", ":root:not(:has(#light:target))")


def assert_harmless_sheet(sheet):
    """Check that a sheet cannot load, escape or overlay anything; ``@media`` is the only allowed at-rule."""
    assert "<" not in sheet
    assert "\\" not in sheet
    assert "/*" not in sheet
    _assert_rules(tinycss2.parse_stylesheet(sheet))


def assert_harmless_style(style):
    """Perform the same checks on the declarations of a style attribute."""
    assert "<" not in style
    assert "\\" not in style
    assert "/*" not in style
    _assert_declarations(tinycss2.parse_blocks_contents(style))


def _assert_rules(rules):
    for rule in rules:
        assert rule.type in ("qualified-rule", "at-rule"), rule
        if rule.type == "at-rule":
            assert rule.at_keyword == "media"
            _assert_tokens(rule.prelude, frozenset(), 0)
            _assert_rules(tinycss2.parse_stylesheet(rule.content))
        elif tinycss2.serialize(rule.prelude) in ASKED_FOR:
            _assert_rules(tinycss2.parse_stylesheet(rule.content))
        else:
            _assert_tokens(rule.prelude, SELECTOR_FUNCTIONS, 0)
            assert (
                ":where(body,body *)" in tinycss2.serialize(rule.prelude)
                or "html" in tinycss2.serialize(rule.prelude)
                or ":root" in tinycss2.serialize(rule.prelude)
            )
            _assert_declarations(tinycss2.parse_blocks_contents(rule.content))


def _assert_declarations(declarations):
    for declaration in declarations:
        assert declaration.type == "declaration", declaration
        assert not PLACED.fullmatch(declaration.lower_name)
        _assert_tokens(declaration.value, FUNCTIONS, 0)


def _assert_tokens(tokens, functions, depth):
    assert depth <= MAX_DEPTH
    for token in tokens:
        assert token.type not in ("url", "error", "comment", "at-keyword", "{} block", "unicode-range"), token
        if token.type == "function":
            assert token.lower_name in functions
            _assert_tokens(token.arguments, functions, depth + 1)
        elif token.type in ("() block", "[] block"):
            _assert_tokens(token.content, functions, depth + 1)
        elif token.type == "string":
            assert re.fullmatch(r"[^<>\\\"'/\n]{0,200}", token.value)
