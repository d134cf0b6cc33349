"""Chooses the content coding, the language and the kind of error that a client prefers (RFC 9110 §12.5)."""

import re
from collections.abc import Iterator, Sequence

_MAX_ITEMS = 64  # of a field; browsers send a dozen
_weighted = re.compile(r"([a-z0-9*_/.+-]{1,64})(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?").fullmatch


def prefers_gzip(accept_encoding: Sequence[str]) -> bool:
    """Return whether these fields (RFC 9110 §12.5.3) allow gzip and rank it at least as high as the plain form."""
    weights = _weights(accept_encoding)
    gzip_weight = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0)))
    return gzip_weight > 0 and gzip_weight >= weights.get("identity", 0)


def best_language(accept_language: Sequence[str], offered: Sequence[str], default: str) -> str:
    """Return the one of ``offered`` (tags in lower case) that these fields (RFC 9110 §12.5.4) ask for first.

    By lookup (RFC 4647 §3.4): ``de-at`` finds ``de``, not the other way round. When nothing is found: ``default``, or
    another one that is not refused.
    """
    weights = _weights(accept_language)
    for wanted in sorted(weights, key=weights.__getitem__, reverse=True):
        for tag in _shortened(wanted) if weights[wanted] else ():
            if tag in offered and weights.get(tag, 1):
                return tag
    return next((tag for tag in (default, *offered) if weights.get(tag, 1)), default)


def accepts_html(accept: Sequence[str]) -> bool:
    """Return whether these fields (RFC 9110 §12.5.1) name HTML, as browsers do, and rank no JSON above it."""
    weights = _weights(accept)
    json = max(weights.get("application/json", 0), weights.get("application/problem+json", 0))
    return weights.get("text/html", 0) > 0 and weights["text/html"] >= json


def _weights(fields: Sequence[str]) -> dict[str, float]:
    """Return the weight of each item; what is malformed counts as absent."""
    items = ",".join(fields).lower().split(",", _MAX_ITEMS)[:_MAX_ITEMS]
    read = [_weighted(item.strip()) for item in items]
    return {item[1]: float(item[2] or 1) for item in read if item}


def _shortened(tag: str) -> Iterator[str]:
    while tag:
        yield tag
        tag = tag.rpartition("-")[0]
