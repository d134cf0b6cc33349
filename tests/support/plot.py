"""Lines over time as an SVG picture, one chart below the other; readable on white and on black."""

from typing import NamedTuple

WIDTH, HEIGHT, LEFT, GAP, TOP = 860, 130, 70, 46, 34
COLOURS = ("#3b82f6", "#f97316", "#10b981")
POINTS = 430  # a line has no more: each stands for the highest of its time


class Chart(NamedTuple):
    """Some lines with one scale: ``lines`` are names and values, a value for each time."""

    title: str
    lines: dict[str, list[float]]


def svg(times, charts, title):
    """Return the picture; ``times`` are minutes."""
    height = TOP + len(charts) * (HEIGHT + GAP)
    box = f"0 0 {LEFT + WIDTH + 20} {height}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif" font-size="13" fill="#808080">',
        f'<text x="{LEFT}" y="18" font-size="15">{title}</text>',
    ]
    for number, chart in enumerate(charts):
        parts += _chart(times, chart, TOP + 20 + number * (HEIGHT + GAP))
    return "\n".join((*parts, "</svg>\n"))


def _chart(times, chart, top):
    highest = max(max(values) for values in chart.lines.values()) * 1.1 or 1
    bottom = top + HEIGHT
    yield f'<text x="{LEFT}" y="{top - 6}">{chart.title}</text>'
    for share in (0, 0.5, 1):
        y = bottom - share * HEIGHT
        yield f'<path d="M{LEFT} {y:.0f}h{WIDTH}" stroke="#808080" stroke-opacity=".3"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{share * highest:,.3g}</text>'
    yield f'<text x="{LEFT + WIDTH}" y="{bottom + 15}" text-anchor="end">{times[-1]:.0f} min</text>'
    for place, (name, values) in enumerate(chart.lines.items()):
        points = " ".join(
            f"{LEFT + WIDTH * x / times[-1]:.1f},{bottom - HEIGHT * y / highest:.1f}" for x, y in _fewer(times, values)
        )
        colour = COLOURS[place]
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        yield f'<text x="{LEFT + 250 + place * 190}" y="{top - 6}" fill="{colour}">{name}</text>'


def _fewer(times, values):
    step = -(-len(times) // POINTS)
    return [(times[start], max(values[start : start + step])) for start in range(0, len(times), step)]
