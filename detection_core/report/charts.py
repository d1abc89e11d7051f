"""Charts as SVG images, drawn by Matplotlib.

A chart goes into a page as an image of its own, and nothing of what Matplotlib writes is changed: the page's
style sheet turns its colours round where the theme is dark.
"""

from __future__ import annotations

import base64
import dataclasses
import io
from collections.abc import Sequence
from typing import Any

from detection_core.report.page import shown

_TEXT, _GRID = "#1b1f24", "#c9d0d8"
_SERIES = (
    "#0b62c4", "#d9730d", "#178a4c", "#b03fa0", "#c22f2f", "#0e8fa3",
    "#8a6d00", "#6b4fd8", "#5a8f00", "#a3485d", "#44637d", "#7d5a3c",
)  # fmt: skip
MAX_LINES = len(_SERIES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chart:
    """A drawn chart.

    Attributes:
        title: name, which a page gives as the image's text.
        data: the SVG as a data URI.
    """

    title: str
    data: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a chart.

    Attributes:
        label: for the legend; may hold any text.
        x: abscissas.
        y: ordinates.
        series: which of the colours.
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


def line_chart(lines: Sequence[Line], options: ChartOptions) -> Chart:
    """Return a line chart."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Texts are drawn as paths, as an image finds no fonts; the salt of ids keeps equal charts equal.
    settings = {"svg.fonttype": "path", "svg.hashsalt": "chart", "font.size": 10, "axes.edgecolor": _GRID}
    with mpl.rc_context(settings):
        figure = Figure(figsize=options.size, layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        _draw(axes, lines, options)
        _label(axes, options)
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    data = "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue()).decode()
    return Chart(title=options.title, data=data)


def _draw(axes: Any, lines: Sequence[Line], options: ChartOptions) -> None:
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


def _label(axes: Any, options: ChartOptions) -> None:
    axes.set_title(_plain(options.title), loc="left", fontsize=11, color=_TEXT)
    axes.set_xlabel(options.x_label, color=_TEXT)
    axes.set_ylabel(options.y_label, color=_TEXT)
    axes.tick_params(which="both", colors=_GRID, labelcolor=_TEXT)
    axes.grid(color=_GRID, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _plain(text: str) -> str:
    """Keep Matplotlib from reading a name as mathematics, or from hiding it in the legend."""
    text = shown(text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
