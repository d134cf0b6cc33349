"""HTML that combines the features that our parser handles: hostile mail may contain more than one repeated piece.

Any two variants of different features occur together in at least one combination. Each ◊ is replaced with a sequence
number.
"""

from itertools import combinations, count, islice

SHARES = {"few rules": 0.1, "half rules": 0.5, "mostly rules": 0.9}
FEATURES = {
    "share": tuple(SHARES),
    "selectors": (".a .b", "p.a#i◊", ".c◊", ".a,.b,p,td,a", ".a:not(.b)[id]"),
    "block": (
        "opacity:1",
        "opacity:0",
        "color:#fff;opacity:1!important",
        "display:none;height:0;" * 8,
        "color:rgb(◊,0,0)",
    ),
    "around": ("", "@media all{", "@media (max-width:◊px){", "@media screen{@media all{"),
    "element": ("<p $>x", "<td $><b>x</td>", "<a href=https://a.example/◊ $>x</a>", "<b><div $>x</b>"),
    "classes": ("a b", "a c◊", " ".join(f"c{n}" for n in range(12))),
    "attributes": ("", "id=i◊", "bgcolor=white hidden=no a b c d", "title='&amp;&lt;◊'"),
    "style": ("", "color:#fff", "color:#fff;x:◊", "display:block!important;opacity:◊"),
    "before": ("", "<base href=https://a.example/>", "<div hidden>", "<table>", "<div><i>" * 50),
}


def covering():
    """Return combinations in which any two variants of different features occur together."""
    missing = {
        ((one, first), (other, second))
        for one, other in combinations(FEATURES, 2)
        for first in FEATURES[one]
        for second in FEATURES[other]
    }
    found = []
    while missing:
        chosen = dict(min(missing))
        for name, variants in FEATURES.items():
            if name not in chosen:
                chosen[name] = max(variants, key=lambda variant: _pairs_with(chosen, name, variant, missing))
        found.append({name: chosen[name] for name in FEATURES})
        missing -= set(combinations(found[-1].items(), 2))
    return found


def _pairs_with(chosen, name, variant, missing):
    order = list(FEATURES)
    return sum(
        tuple(sorted(((other, value), (name, variant)), key=lambda one: order.index(one[0]))) in missing
        for other, value in chosen.items()
    )


def html(chosen, characters):
    """Return the HTML of a combination, up to a maximum length."""
    around = chosen["around"]
    rule = f"{around}{chosen['selectors']}{{{chosen['block']}}}{'}' * around.count('{')}"
    attributes = f"class='{chosen['classes']}' {chosen['attributes']} style='{chosen['style']}'"
    of_rules = int(characters * SHARES[chosen["share"]])
    sheet = _filled(rule, of_rules)
    return f"<style>{sheet}</style>{chosen['before']}{_filled(chosen['element'].replace('$', attributes), characters - of_rules)}"


def _filled(piece, characters):
    written = (piece.replace("◊", str(number)) for number in count())
    return "".join(islice(written, characters // len(piece.replace("◊", "0000"))))
