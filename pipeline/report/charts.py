"""Charts as inline SVG whose colours follow the page's light or dark theme."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

from detection_core.html_page import escape, shown

# Matplotlib draws in these stand-in colours; the page's style sheet gives the real ones.
_TEXT, _GRID = "#010101", "#020202"
_SERIES = tuple(f"#0300{i:02x}" for i in range(12))
MAX_LINES = len(_SERIES)
_THEME = {_TEXT: "currentColor", _GRID: "var(--grid)"} | {c: f"var(--s{i})" for i, c in enumerate(_SERIES)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a chart.

    Attributes:
        label: for the legend; may hold any text.
        x: abscissas.
        y: ordinates.
        series: which of the theme's colours.
        thick: draw it thick.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    series: int = 0
    thick: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChartOptions:
    """How a chart looks.

    Attributes:
        title: name, also the accessible one.
        x_label: what the x axis shows.
        y_label: what the y axis shows.
        unit_square: both axes run from 0 to 1.
        log_y: logarithmic y axis.
        legend_outside: put a long legend beside the plot.
        size: width and height, inches of 72 px.
    """

    title: str
    x_label: str
    y_label: str
    unit_square: bool = False
    log_y: bool = False
    legend_outside: bool = False
    size: tuple[float, float] = (6.4, 3.4)


def line_chart(lines: Sequence[Line], options: ChartOptions) -> str:
    """Return a line chart as an SVG element."""

    def draw(axes: Any) -> None:
        for line in lines:
            axes.plot(
                line.x,
                line.y,
                color=_SERIES[line.series % len(_SERIES)],
                linewidth=2.6 if line.thick else 1.6,
                label=_plain(line.label),
                # A single point has no line to see.
                marker="o" if len(line.x) == 1 else "",
            )
        if options.unit_square:
            axes.set_xlim(0, 1.005)
            axes.set_ylim(0, 1.02)
        if options.log_y:
            axes.set_yscale("log")
        if options.legend_outside:
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, labelcolor=_TEXT)
        elif len(lines) > 1:
            axes.legend(frameon=False, labelcolor=_TEXT)

    return _render(draw, options)


def _render(draw: Callable[[Any], None], options: ChartOptions) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # The salt names the clip paths: charts of one page must not share ids, equal charts should be equal.
    salt = re.sub(r"\W+", "-", options.title)
    settings = {"svg.fonttype": "none", "svg.hashsalt": salt, "font.size": 10, "axes.edgecolor": _GRID}
    with mpl.rc_context(settings):
        figure = Figure(figsize=options.size, layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        draw(axes)
        axes.set_title(_plain(options.title), loc="left", fontsize=11, color=_TEXT)
        axes.set_xlabel(options.x_label, color=_TEXT)
        axes.set_ylabel(options.y_label, color=_TEXT)
        axes.tick_params(which="both", colors=_GRID, labelcolor=_TEXT)
        axes.grid(color=_GRID, linewidth=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(stream.getvalue(), options.title)


def _plain(text: str) -> str:
    """Keep Matplotlib from reading a name as mathematics, or from hiding it in the legend."""
    text = shown(text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _inline(svg: str, title: str) -> str:
    """Take out what belongs to a file of its own, and put the theme's colours in."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="(?!p[0-9a-f]{8,}|m[0-9a-f]{8,})[^"]*"', "", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", svg)
    for stand_in, colour in _THEME.items():
        svg = svg.replace(stand_in, colour)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    label = escape(title)
    svg = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'<svg ([^>]*?)height="[^"]*"', r"<svg \1", svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
