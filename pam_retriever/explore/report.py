"""One question and its neighbourhood as an HTML file without scripts, to send to a colleague."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pam_retriever.errors import counted
from pam_retriever.explore.answers import ask
from pam_retriever.explore.pictures import neighbourhood

if TYPE_CHECKING:
    import pam_retriever as pam

STYLE = Path(__file__).parent / "static" / "report.css"
WIDTH, HEIGHT, MARGIN = 760, 460, 70
COLOURS = 10  # number of colours of sources in the style sheet


def write(index: pam.PredictiveAssociativeIndex, question: Mapping[str, Any]) -> str:
    """Returns HTML with the memories that look like a question or happened with it, reasons, and its neighbourhood.

    Args:
        index: the index to query.
        question: see ``answers.ask``.

    Raises:
        InvalidInput, UnknownId: the question is invalid.
    """
    answer = ask(index, question)
    near = neighbourhood(index, {**question, "hops": 1})
    style = STYLE.read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    title = question.get("text") or (answer["cue"] or {}).get("text") or question.get("id") or ""
    similar = _column("Looks like it", answer["looks"], [])
    happened = _column("Happened with it", answer["happened"], answer["sources"])
    legend = "".join(
        f'<li><span class="s{at % COLOURS}"></span>{escape(n)}</li>' for at, n in enumerate(answer["sources"])
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{digest}'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title[:80])}</title><style>{style}</style></head><body><main>"
        f'<p class="faint">What an index recalls</p><h1 dir="auto">{escape(title)}</h1>'
        f'<ul class="legend">{legend}</ul><div class="columns">{similar}{happened}</div>'
        f"<h2>Neighbourhood</h2>{_graph(near)}</main></body></html>"
    )


def _column(title: str, hits: Sequence[Mapping[str, Any]], sources: Sequence[str]) -> str:
    most = max((sum(abs(value) for value in (hit["sources"] or {}).values()) for hit in hits), default=1.0) or 1.0
    items = "".join(_hit(hit, sources, most) for hit in hits)
    return f"<section><h2>{escape(title)}</h2><ol>{items}</ol></section>"


def _hit(hit: Mapping[str, Any], sources: Sequence[str], most: float) -> str:
    sure = "" if hit["confidence"] is None else f" · {hit['confidence']:.0%} sure"
    shares = hit["sources"] or {}
    x, bars = 0.0, []
    for at, name in enumerate(sources):
        width = 100 * abs(shares.get(name, 0.0)) / most
        bars.append(f'<rect class="s{at % COLOURS}" x="{x:.2f}" width="{width:.2f}" height="4"/>')
        x += width
    label = ", ".join(f"{name} {value:.3f}" for name, value in shares.items())
    drawn = "".join(bars)
    frame = f'class="bar" role="img" aria-label="{escape(label)}" viewBox="0 0 100 4" preserveAspectRatio="none"'
    bar = f"<svg {frame}>{drawn}</svg>" if shares else ""
    return (
        f'<li><p class="number">{hit["score"]:.3f}<span class="faint">{sure}</span></p>'
        f'<p dir="auto" class="text">{escape(hit["text"] or hit["id"])}</p>{bar}'
        f'<p class="faint"><bdi>{escape(hit["id"])}</bdi>{_why(hit)}</p></li>'
    )


def _why(hit: Mapping[str, Any]) -> str:
    evidence = hit["evidence"]
    if evidence is None:
        return ""
    if not evidence:
        return " · predicted, never experienced"
    first = evidence[0]
    more = f" and {counted(len(evidence) - 1, 'more time')}" if len(evidence) > 1 else ""
    return f" · met in <bdi>{escape(first['trajectory'])}</bdi>, {counted(first['offset'], 'step', '+')}{more}"


def _graph(near: Mapping[str, Any]) -> str:
    """Draws nodes by similarity, and exact and predicted edges."""
    positions = {
        node["id"]: (
            WIDTH / 2 + node["at"][0] * (WIDTH / 2 - MARGIN),
            HEIGHT / 2 + node["at"][1] * (HEIGHT / 2 - MARGIN / 2),
        )
        for node in near["nodes"]
    }
    lines = "".join(
        '<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>'.format(
            "exact" if edge["exact"] else "predicted", *positions[edge["from"]], *positions[edge["to"]]
        )
        for edge in near["edges"]
        if edge["from"] in positions and edge["to"] in positions
    )
    dots = "".join(_node(node, *positions[node["id"]]) for node in near["nodes"])
    frame = f'class="graph" role="img" aria-label="Neighbourhood" viewBox="0 0 {WIDTH} {HEIGHT}"'
    label = "Lines: experienced together; dashed: predicted."
    return f"<figure><svg {frame}>{lines}{dots}</svg><figcaption>{label}</figcaption></figure>"


def _node(node: Mapping[str, Any], x: float, y: float) -> str:
    kind, radius = ("cue", 7) if node["hop"] == 0 else ("node", 5)
    return (
        f"<g><title>{escape(node['text'] or node['id'])}</title>"
        f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'
        f'<text x="{x:.1f}" y="{y - 10:.1f}">{escape(node["name"][:28])}</text></g>'
    )
