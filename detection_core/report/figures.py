"""Lines, bars and heat maps as data; a page draws them as SVG in its colours."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from detection_core.artifacts.box_profile import AnchorMatches, BoxProfile, Histogram, SizeGrid

WIDTH, HEIGHT = 360, 194
"""Size of a chart, in units of its view box."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 24, 10, 38
_LABELS = 7
SERIES = 12
"""Number of colours; further splits reuse them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar of a chart, in units of its view box: upper left corner, size, index of the colour, tooltip."""

    x: float
    y: float
    width: float
    height: float
    series: int
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a chart.

    Attributes:
        label: for the legend; any text.
        x: x coordinates.
        y: y coordinates.
        thick: draw it thick.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    thick: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chart:
    """Bars or lines in one frame.

    Attributes:
        title: name of the chart.
        x_label: label of the x axis.
        bars: bars of all splits; one colour per split.
        lines: (points of a polyline, whether it is thick), each in a different colour.
        ticks: (x, text) below.
        levels: (y, text) of the horizontal lines.
        series: name of the split or line of each colour.
        left: left edge of the plot.
    """

    title: str
    x_label: str
    bars: Sequence[Bar] = ()
    lines: Sequence[tuple[str, bool]] = ()
    ticks: Sequence[tuple[float, str]]
    levels: Sequence[tuple[float, str]]
    series: Sequence[str]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeatMap:
    """Cells whose shade shows the number of boxes.

    Attributes:
        title: name of the map.
        cells: (column, row, shade from 0 to 1, tooltip); without empty cells.
        columns: number of columns.
        rows: number of rows.
        x_ticks: (column, text) below.
        y_ticks: (row, text) beside.
        points: (column, row) of marks, in units of cells from the upper left corner.
    """

    title: str
    cells: Sequence[tuple[int, int, float, str]]
    columns: int
    rows: int
    x_ticks: Sequence[tuple[float, str]] = ()
    y_ticks: Sequence[tuple[float, str]] = ()
    points: Sequence[tuple[float, float]] = ()


def bar_chart(
    title: str, x_label: str, histograms: Mapping[str, Histogram], labels: Sequence[str], unit: str
) -> Chart:
    """Draw several splits' histograms beside each other, each as fractions of its sum.

    All histograms have the same bins. `labels` name the bins, `unit` names what is counted.
    """
    # Without the bins that are empty in all splits at both ends.
    used = [place for h in histograms.values() for place, count in enumerate(h.counts) if count]
    kept = slice(max(0, min(used, default=0) - 1), max(used, default=0) + 2)
    counts, labels = {name: h.counts[kept] for name, h in histograms.items()}, labels[kept]
    shares = {name: [count / max(1, sum(values)) for count in values] for name, values in counts.items()}
    top = min(1.0, _round_up(max((max(values) for values in shares.values()), default=0.0)))
    step = (WIDTH - _LEFT) / max(1, len(labels))
    each = step * 0.84 / max(1, len(shares))
    room = HEIGHT - _TOP - _BOTTOM
    bars = []
    for number, (name, values) in enumerate(shares.items()):
        for place, value in enumerate(values):
            if value:
                count = counts[name][place]
                bars.append(
                    Bar(
                        x=round(_LEFT + place * step + step * 0.08 + number * each, 2),
                        y=round(_TOP + room * (1 - value / top), 2),
                        width=round(each, 2),
                        height=round(room * value / top, 2),
                        series=number % SERIES,
                        text=f"{name}, {labels[place]}: {count:,} {unit}, {100 * value:.1f} %",
                    )
                )
    every = math.ceil(len(labels) / _LABELS)
    return Chart(
        title=title,
        x_label=x_label,
        bars=bars,
        ticks=[
            (round(_LEFT + (place + 0.5) * step, 2), text)
            for place, text in enumerate(labels)
            if place % every == 0
        ],
        levels=[
            (round(_TOP + room * (1 - part), 2), f"{100 * part * top:.3g} %") for part in (0.0, 0.5, 1.0)
        ],
        series=list(shares),
    )


def line_chart(
    title: str, x_label: str, lines: Sequence[Line], *, unit_square: bool = False, log_y: bool = False
) -> Chart:
    """Draw lines; non-finite values are left out, and colours recur after `SERIES` lines.

    A unit square has both axes from 0 to 1; a logarithmic y axis leaves out values of 0 or less.
    """
    points = [_points(line, log_y=log_y) for line in lines]
    columns = _grid([0, 1] if unit_square else [x for line in points for x, _ in line])
    rows = _grid([0, 1] if unit_square else [y for line in points for _, y in line], whole=log_y)

    def across(x: float) -> float:
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * (x - columns[0]) / (columns[-1] - columns[0]), 1)

    def down(y: float) -> float:
        room = HEIGHT - _TOP - _BOTTOM
        return round(_TOP + room * (rows[-1] - y) / (rows[-1] - rows[0]), 1)

    drawn = []
    for line, found in zip(lines, points, strict=True):
        places = list(dict.fromkeys(f"{across(x):g},{down(y):g}" for x, y in found))
        # A single point has no visible line, so its round end is drawn.
        drawn.append((" ".join(places * 2 if len(places) == 1 else places), line.thick))
    return Chart(
        title=title,
        x_label=x_label,
        lines=drawn,
        ticks=[(across(x), f"{x:,.6g}") for x in columns],
        levels=[(down(y), f"{10**y if log_y else y:,.6g}") for y in rows],
        series=[line.label for line in lines],
    )


def _points(line: Line, *, log_y: bool) -> list[tuple[float, float]]:
    pairs = [(x, y) for x, y in zip(line.x, line.y, strict=False) if math.isfinite(x) and math.isfinite(y)]
    return [(x, math.log10(y)) for x, y in pairs if y > 0] if log_y else pairs


def _grid(values: Sequence[float], *, whole: bool = False) -> list[float]:
    """Return equidistant round numbers around all values; `whole`: integers only."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    step = max(_round_up((high - low) / 5), 1.0 if whole else 0.0)
    first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
    return [step * place for place in range(first, max(last, first + 1) + 1)]


def heat_map(title: str, counts: Sequence[Sequence[int]]) -> HeatMap:
    """Draw a table of numbers of boxes, with rows from the top."""
    most = max((max(row) for row in counts), default=0) or 1
    cells = [
        (column, row, round(math.sqrt(count / most), 3), f"{count:,} boxes")
        for row, values in enumerate(counts)
        for column, count in enumerate(values)
        if count
    ]
    return HeatMap(title=title, cells=cells, columns=len(counts[0]) if counts else 0, rows=len(counts))


def size_map(title: str, grid: SizeGrid, shapes: Sequence[tuple[float, float]] = ()) -> HeatMap:
    """Draw boxes by width (to the right) and height (upwards), and mark (height, width) shapes."""
    drawn = heat_map(title, grid.counts[::-1])
    bins = len(grid.up_to)
    marks = [
        (place + 1, f"{100 * edge:.3g}" if edge >= 0.1 else f"{100 * edge:.2g}")
        for place, edge in enumerate(grid.up_to)
        if (bins - 1 - place) % 4 == 0
    ]
    return dataclasses.replace(
        drawn,
        x_ticks=marks,
        y_ticks=[(float(bins - place), text) for place, text in marks],
        points=sorted(
            {(_place(width, grid), round(bins - _place(height, grid), 2)) for height, width in shapes}
        ),
    )


def _place(value: float, grid: SizeGrid) -> float:
    """Return a value's position among bins of equal ratio, in bins, clipped to the range."""
    edges, bins = grid.up_to, len(grid.up_to)
    if bins < 2 or value <= 0:
        return 0.0
    place = bins + math.log(value / edges[-1]) / math.log(edges[-1] / edges[-2])
    return round(min(max(place, 0.0), float(bins)), 2)


def anchor_charts(matches: AnchorMatches) -> list[Chart]:
    """Return the chart of the anchors' fit to boxes."""
    if not matches.splits:
        return []
    first = next(iter(matches.splits.values())).overlaps
    return [
        bar_chart(
            "How well the best anchor fits",
            "intersection over union",
            {name: match.overlaps for name, match in matches.splits.items()},
            [_ratio(edge) for edge in first.up_to],
            "boxes",
        )
    ]


def anchor_maps(matches: AnchorMatches) -> list[HeatMap]:
    """Return maps of each split: boxes and anchors by width and height, then unmatched boxes."""
    splits = matches.splits.items()
    return [
        *(size_map(f"{name}: boxes, and the anchors as dots", m.sizes, matches.shapes) for name, m in splits),
        *(size_map(f"{name}: boxes that no anchor matches", m.unmatched) for name, m in splits),
    ]


def profile_charts(profiles: Mapping[str, BoxProfile]) -> list[Chart]:
    """Return the charts of a data set's boxes: sizes, aspect ratios, boxes per image."""
    if not any(profile.boxes for profile in profiles.values()):
        return []
    first = next(iter(profiles.values()))
    per_image = [
        f"{low + 1:g} to {up:g}" if up > low + 1 else f"{up:g}"
        for low, up in zip([-1.0, *first.per_image.up_to], first.per_image.up_to, strict=False)
    ]

    def chart(title: str, x_label: str, counted: str, labels: Sequence[str], unit: str = "boxes") -> Chart:
        histograms = {name: getattr(profile, counted) for name, profile in profiles.items()}
        return bar_chart(title, x_label, histograms, labels, unit)

    limits, aspects = first.sides_px.up_to, [_ratio(edge) for edge in first.aspects.up_to]
    sides = [*(f"\N{LESS-THAN OR EQUAL TO}{edge:.0f}" for edge in limits[:-1]), f">{limits[-2]:.0f}"]
    counts = [*per_image[:-1], f"over {first.per_image.up_to[-2]:g}"]
    return [
        chart("Size of the boxes", "root of the area, pixels of the image", "sides_px", sides),
        chart("Shape of the boxes", "width over height", "aspects", aspects),
        chart("Boxes of an image", "boxes", "per_image", counts, "images"),
    ]


def profile_maps(profiles: Mapping[str, BoxProfile]) -> list[HeatMap]:
    """Return three maps of each split's boxes: centres, coverage, width against height."""
    maps = []
    for name, profile in profiles.items():
        if profile.boxes:
            maps += [
                heat_map(f"{name}: where centres are", profile.centres),
                heat_map(f"{name}: what boxes cover", profile.coverage),
                size_map(f"{name}: height over width, % of the image", profile.sizes),
            ]
    return maps


def _ratio(edge: float) -> str:
    return f"\N{LESS-THAN OR EQUAL TO}{edge:.2g}"


def _round_up(value: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 5, 10) if value <= power * step * (1 + 1e-9))
