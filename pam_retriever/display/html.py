"""HTML of tables and small charts, without scripts. Texts of an index are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

LONGEST = 200  # largest number of characters of a text that are shown
MOST_ROWS = 50
TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;max-width:60rem"
CELL = "padding:.3em .8em .3em 0;text-align:start;vertical-align:top;border-bottom:1px solid #8884"
FAINT = "opacity:.65"
BLUE = "#4c78a8"
WIDTH, HEIGHT = 320, 90  # of a chart, in pixels


def text_of(value: str | None, most: int = LONGEST) -> str:
    """Returns a text as HTML, cut if it is long. The browser determines its writing direction."""
    if value is None:
        return f'<span style="{FAINT}">no text</span>'
    short = value if len(value) <= most else value[: most - 1] + "…"
    return f'<span dir="auto">{escape(short)}</span>'


def number(value: float | None) -> str:
    """Returns a number as HTML; an empty string for None."""
    return "" if value is None else f"{value:.3f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Returns a table.

    Args:
        head: plain texts.
        rows: cells that are HTML already.
        caption: plain text above it.
    """
    cells = "".join(f'<th style="{CELL};{FAINT};font-weight:600">{escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{cell}</td>' for cell in row) + "</tr>" for row in list(rows)[:MOST_ROWS]
    )
    above = f'<caption style="text-align:start;{FAINT}">{escape(caption)}</caption>' if caption else ""
    return f'<table style="{TABLE}">{above}<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>'


def facts(named: Sequence[tuple[str, str]]) -> str:
    """Returns a table of names and values, both plain texts."""
    faint = f"{CELL};{FAINT};font-weight:400"
    rows = "".join(
        f'<tr><th style="{faint}">{escape(name)}</th><td style="{CELL}">{escape(value)}</td></tr>'
        for name, value in named
    )
    return f'<table style="{TABLE}"><tbody>{rows}</tbody></table>'


def line_chart(values: Sequence[float], label: str) -> str:
    """Returns a small line chart as SVG; an empty string for fewer than two values."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    points = " ".join(
        f"{at * WIDTH / (len(values) - 1):.1f},{4 + (HEIGHT - 8) * (high - value) / span:.1f}"
        for at, value in enumerate(values)
    )
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'style="width:{WIDTH}px;max-width:100%"><title>{escape(label)}</title>'
        f'<polyline points="{points}" fill="none" stroke="{BLUE}" stroke-width="2"/></svg>'
    )


def explorer_html(address: str) -> str:
    """Returns a link to a running explorer."""
    return (
        f'<p>Explorer: <a href="{escape(address)}" target="_blank" rel="noopener noreferrer">{escape(address)}</a></p>'
    )
