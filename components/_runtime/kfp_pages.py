"""Pages for Kubeflow Pipelines' user interface: one file each, nothing loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

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


def evaluation_page(
    metrics: Mapping[str, Any], curves: Mapping[str, Any], pictures: Sequence[tuple[str, str]]
) -> str:
    """Return the page of an evaluation.

    Args:
        metrics: content of metrics.json.
        curves: content of curves.json.
        pictures: (caption, data URI) each.
    """
    verdict = '<b class="yes">blessed</b>' if metrics["blessed"] else '<b class="no">not blessed</b>'
    baseline = metrics["baseline"] or {}
    rows = [
        (name, _number(value), *([_number(baseline.get(name))] if baseline else []))
        for name, value in metrics["metrics"].items()
    ]
    classes = [
        (c["name"], c["objects"], c["found"], c["misses"], c["false_positives"], _number(c["ap50"]))
        for c in curves["classes"]
    ]
    drawn = sorted((c for c in curves["classes"] if c["recall"]), key=lambda c: -c["objects"])[:CURVES]
    return _page(
        "Evaluation",
        f"<p>{verdict} on {metrics['images']} images of the split {_text(metrics['split'])}</p>",
        _list(metrics["reasons"]),
        "<h2>Metrics</h2>",
        _table(("metric", "model", *(["baseline"] if baseline else [])), rows),
        f"<h2>Classes at score {_number(curves['score_threshold'])} and above</h2>",
        _table(("class", "objects", "found", "missed", "false", "AP@.50"), classes),
        "<h2>Precision over recall at IoU 0.5</h2>",
        "".join(_curve(c) for c in drawn),
        "<h2>Pictures</h2>" if pictures else "",
        *(
            f'<figure><img src="{_text(uri)}"><figcaption>{_text(caption)}</figcaption></figure>'
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
    return _page(
        "Data set",
        f"<p>{card['total']['images']} images, {card['total']['objects']} objects, {card['format']}</p>",
        _list(spans),
        f'<p class="no">{shared} images are in more than one split</p>' if shared else "",
        _table(("split", "images", "empty", "objects", "shards", "quarantined"), splits),
        "<h2>Objects of each class</h2>",
        _table(("class", "all", *names), classes),
        "<h2>Quarantine</h2>",
        f"<p>{kept_out['records']} records, {_number(kept_out['fraction'])} of all</p>",
        _list(f"{reason}: {count}" for reason, count in kept_out["reasons"].items()),
    )


def decision_text(pushed: Mapping[str, Any]) -> str:
    """Return what Pusher decided as Markdown, given what pushed.json holds."""
    heading = f"Published as version {pushed['version']}" if pushed["pushed"] else "Not published"
    # Reasons name metrics and classes; underscores and asterisks in them are meant as they are.
    reasons = "".join(f"- {_plain_markdown(reason)}\n" for reason in pushed["reasons"])
    place = f"\nAt `{pushed['path']}`\n" if "path" in pushed else ""
    return f"# {heading}\n\n{reasons}{place}"


def _plain_markdown(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|" else c for c in text)


def _page(title: str, *parts: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>{''.join(parts)}</body></html>\n"
    )


def _table(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    def row(tag: str, cells: Sequence[Any]) -> str:
        return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{row('th', head)}{''.join(row('td', cells) for cells in rows)}</table>"


def _list(texts: Any) -> str:
    return "<ul>" + "".join(f"<li>{_text(text)}</li>" for text in texts) + "</ul>"


def _curve(entry: Mapping[str, Any]) -> str:
    """Draw a class's curve in a square of 120 units."""
    points = " ".join(
        f"{10 + 100 * recall:.1f},{110 - 100 * precision:.1f}"
        for recall, precision in zip(entry["recall"], entry["precision"], strict=True)
    )
    return (
        '<figure><svg viewBox="0 0 120 120" width="170" height="170">'
        '<rect x="10" y="10" width="100" height="100" fill="none" stroke="#ccc"/>'
        f'<polyline points="{points}" fill="none" stroke="#1a5fb4" stroke-width="1.5"/></svg>'
        f"<figcaption>{_text(entry['name'])}, AP@.50 {_number(entry['ap50'])}</figcaption></figure>"
    )


def _number(value: float | None) -> str:
    return "-" if value is None or value == -1 else f"{value:.4g}"


def _text(value: Any) -> str:
    return html.escape(str(value))
