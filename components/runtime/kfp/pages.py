"""Pages for Kubeflow Pipelines' user interface: one file each, nothing loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from detection_core.artifacts.evaluation import ClassCurve, Curves, EvalReport
from detection_core.artifacts.pushed import PushReport
from detection_core.html_page import Markup, fill, join, page, shown

# Classes whose curves are drawn; the table has all of them.
CURVES = 40

_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:1.5em;color:#222;max-width:70em}"
    "table{border-collapse:collapse;margin:.5em 0 1.5em}"
    "td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child{text-align:left}"
    "figure{display:inline-block;margin:.5em;vertical-align:top}figcaption{font-size:12px;max-width:36em}"
    "img{max-width:36em}.yes{color:#17692c}.no{color:#a3231c}"
)


def evaluation_page(metrics: EvalReport, curves: Curves, pictures: Sequence[tuple[str, str]]) -> str:
    """Return the page of an evaluation.

    Args:
        metrics: content of metrics.json.
        curves: content of curves.json.
        pictures: (caption, data URI) each.
    """
    verdict = Markup('<b class="yes">blessed</b>' if metrics.blessed else '<b class="no">not blessed</b>')
    baseline = metrics.baseline or {}
    rows = [
        (name, _number(value), *([_number(baseline.get(name))] if baseline else []))
        for name, value in metrics.metrics.items()
    ]
    classes = [
        (c.name, c.objects, c.found, c.misses, c.false_positives, _number(c.ap50)) for c in curves.classes
    ]
    drawn = sorted((c for c in curves.classes if c.recall), key=lambda c: -c.objects)[:CURVES]
    return page(
        "Evaluation",
        _STYLE,
        fill("<p>{} on {} images of the split {}</p>", verdict, metrics.images, metrics.split),
        _list(metrics.reasons),
        Markup("<h2>Metrics</h2>"),
        _table(("metric", "model", *(["baseline"] if baseline else [])), rows),
        fill("<h2>Classes at score {} and above</h2>", _number(curves.score_threshold)),
        _table(("class", "objects", "found", "missed", "false", "AP@.50"), classes),
        Markup("<h2>Precision over recall at IoU 0.5</h2>"),
        join(_curve(c) for c in drawn),
        Markup("<h2>Pictures</h2>") if pictures else "",
        *(
            fill('<figure><img src="{}"><figcaption>{}</figcaption></figure>', uri, caption)
            for caption, uri in pictures
        ),
    )


def dataset_page(card: Mapping[str, Any]) -> str:
    """Return the page of a dataset card, given what dataset_card.json holds."""
    kept_out = card["quarantine"]
    splits = [
        (name, s["images"], s["empty_images"], s["objects"], s["shards"], sum(s["quarantined"].values()))
        for name, s in card["splits"].items()
    ]
    names = list(card["splits"])
    classes = [
        (c["name"], c["objects"], *(card["splits"][name]["classes"].get(c["name"], 0) for name in names))
        for c in card["classes"]
    ]
    spans = [f"{name}: spans {', '.join(found)}" for name, found in card.get("spans", {}).items()]
    shared = card["images_in_two_splits"]
    total = card["total"]
    return page(
        "Data set",
        _STYLE,
        fill("<p>{} images, {} objects, {}</p>", total["images"], total["objects"], card["format"]),
        _list(spans),
        fill('<p class="no">{} images are in more than one split</p>', shared) if shared else "",
        _table(("split", "images", "empty", "objects", "shards", "quarantined"), splits),
        Markup("<h2>Objects of each class</h2>"),
        _table(("class", "all", *names), classes),
        Markup("<h2>Quarantine</h2>"),
        fill("<p>{} records, {} of all</p>", kept_out["records"], _number(kept_out["fraction"])),
        _list(f"{reason}: {count}" for reason, count in kept_out["reasons"].items()),
    )


def decision_text(pushed: PushReport) -> str:
    """Return what Pusher decided as Markdown, given what pushed.json holds."""
    heading = f"Published as version {pushed.version}" if pushed.pushed else "Not published"
    # Reasons name metrics and classes; underscores and asterisks in them are meant as they are.
    reasons = "".join(f"- {_plain_markdown(reason)}\n" for reason in pushed.reasons)
    place = f"\nAt {_code(pushed.path)}\n" if pushed.path else ""
    return f"# {_plain_markdown(heading)}\n\n{reasons}{place}"


def _plain_markdown(text: str) -> str:
    """Return one line in which nothing is markup."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|" else c for c in _line(text))


def _code(text: str) -> str:
    """Return one line as code, inside a fence that is longer than any in it."""
    line = _line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def _line(text: str) -> str:
    return shown(text).replace("\n", "\\n").replace("\t", "\\t")


def _table(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> Markup:
    def row(cell: str, values: Sequence[Any]) -> Markup:
        return fill("<tr>{}</tr>", join(fill(cell, value) for value in values))

    return fill(
        "<table>{}{}</table>", row("<th>{}</th>", head), join(row("<td>{}</td>", cells) for cells in rows)
    )


def _list(texts: Iterable[Any]) -> Markup:
    return fill("<ul>{}</ul>", join(fill("<li>{}</li>", text) for text in texts))


def _curve(entry: ClassCurve) -> Markup:
    """Draw a class's curve in a square of 120 units."""
    points = " ".join(
        f"{10 + 100 * recall:.1f},{110 - 100 * precision:.1f}"
        for recall, precision in zip(entry.recall, entry.precision, strict=True)
    )
    return fill(
        '<figure><svg viewBox="0 0 120 120" width="170" height="170">'
        '<rect x="10" y="10" width="100" height="100" fill="none" stroke="#ccc"/>'
        '<polyline points="{}" fill="none" stroke="#1a5fb4" stroke-width="1.5"/></svg>'
        "<figcaption>{}, AP@.50 {}</figcaption></figure>",
        points,
        entry.name,
        _number(entry.ap50),
    )


def _number(value: float | None) -> str:
    return "-" if value is None or value == -1 else f"{value:.4g}"
