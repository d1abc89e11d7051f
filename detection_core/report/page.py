"""Self-contained HTML pages from templates, and the numbers, times and pictures on them."""

import base64
import dataclasses
import datetime
import math
import os
from typing import Any

from detection_core.artifacts.benchmark import Benchmark
from detection_core.artifacts.box_profile import Histogram
from detection_core.artifacts.detection_statistics import ComparedProperty, Monitoring
from detection_core.artifacts.pictures import KINDS, PictureEntry, list_pictures
from detection_core.redaction import visible
from detection_core.report import figures
from detection_core.report.figures import Chart, bar_chart

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
"""No scripts, fonts, frames or requests; only embedded pictures and styles."""

TEMPLATES = os.path.join(os.path.dirname(__file__), "templates")


def shown(value: Any) -> str:
    """Return a value as text, with control characters made visible."""
    return visible(str(value))


def render(template: str, context: dict[str, Any], *, folders: tuple[str, ...] = ()) -> str:
    """Render a text; in HTML every value is escaped and made visible, and templates mark none as safe.

    Templates are searched in `folders` first, then in this package.

    Raises:
        ValueError: when the context does not fit the template.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, TEMPLATES]),
        autoescape=jinja2.select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.ChainableUndefined,
        finalize=_visible_text if template.endswith(".html") else None,
    )
    filters = (duration, metric, signed, size, thousands, moment)
    environment.filters |= {function.__name__: function for function in filters}
    environment.globals |= {"policy": CONTENT_SECURITY_POLICY, "zip": zip, "charts": figures}
    try:
        return str(environment.get_template(template).render(context))
    except jinja2.TemplateError as error:
        raise ValueError(str(error)) from error


def _visible_text(value: Any) -> Any:
    """Make text visible before it is escaped; markup from a template's macros is unchanged."""
    return shown(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


BENCHMARK_PAGE = MONITORING_PAGE = "index.html"


def benchmark_page(benchmark: Benchmark) -> str:
    """Return the page of a benchmark."""
    kinds = dict.fromkeys(kind.name for file in benchmark.files for kind in file.operators)
    by_name = [{kind.name: kind for kind in file.operators} for file in benchmark.files]
    return render("benchmark_page.html", {"b": benchmark, "kinds": list(kinds), "by_name": by_name})


def monitoring_page(found: Monitoring) -> str:
    """Return the page of a comparison of served detections with evaluated ones."""
    return render("monitoring_page.html", {"m": found, "charts": list(map(_drift_chart, found.compared))})


def _drift_chart(found: ComparedProperty) -> Chart:
    edges = [0.0] * len(found.bins)
    before, now = (Histogram(up_to=edges, counts=counts) for counts in found.counts)
    title = f"{found.name}: {'drifted' if found.drifted else 'as before'}"
    ticks = found.bins if found.name == "class" else [_tick(name) for name in found.bins]
    return bar_chart(title, found.name, {"evaluated": before, "served": now}, ticks, "counted")


def _tick(name: str) -> str:
    """Shorten the name of a bin to its lower edge, or to row/column."""
    lower = name.replace("below ", "<").partition(" to ")[0].removesuffix(" and more")
    return lower.replace("row ", "").replace(" column ", "/")


DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"


def duration(seconds: Any) -> str:
    """Format seconds as `0.4 s`, `12 s`, `3 min 05 s` or `2 h 07 min`; a dash if unknown."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return DASH
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def metric(value: Any, digits: int = 3) -> str:
    """Format a metric; a dash if it was not measured (missing, NaN, or COCO's -1)."""
    if not isinstance(value, int | float) or not math.isfinite(value) or value == -1:
        return DASH
    return f"{value:.{digits}f}"


def signed(value: Any, digits: int = 3) -> str:
    """Format a difference with its sign; a dash if there is none."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return DASH
    return f"{value:+.{digits}f}".replace("-", MINUS)


def size(count: float) -> str:
    """Format a number of bytes, such as `3.4 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def thousands(value: Any) -> str:
    """Format a count with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else str(value)


def moment(iso: str) -> str:
    """Format an ISO 8601 time as `21 Nov 2026, 10:05 UTC`; other text is unchanged."""
    try:
        when = datetime.datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = f" {when.tzname()}" if when.tzinfo else ""
    return f"{when.day} {when:%b %Y, %H:%M}{zone}"


def seconds_between(start: str, end: str) -> float | None:
    """Return the seconds between two ISO 8601 times; None if one is missing."""
    try:
        return (datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(start)).total_seconds()
    except (ValueError, TypeError):
        return None


BUDGET_BYTES = 2_200_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture with its caption.

    Attributes:
        source_id: id of the image.
        caption: description of the picture.
        data: the picture as a data URI.
    """

    source_id: str
    caption: str
    data: str


class PictureBudget:
    """Embeds pictures until the budget is spent; the others stay in the artifact.

    Args:
        left: bytes that pictures may take.
    """

    def __init__(self, left: int = BUDGET_BYTES) -> None:
        self._left = left

    def embed(self, evaluation_dir: str, limits: dict[str, int]) -> dict[str, list[Picture]]:
        """Return the pictures of an evaluation's `pictures/index.jsonl` by kind; `limits` are per kind."""
        found: dict[str, list[Picture]] = {kind: [] for kind in KINDS}
        for entry in list_pictures(evaluation_dir):
            shown = found.get(entry.kind)
            if shown is not None and len(shown) < limits.get(entry.kind, 0):
                picture = self.embed_one(entry)
                if picture is not None:
                    shown.append(picture)
        return found

    def embed_one(self, entry: PictureEntry) -> Picture | None:
        """Return a picture; None if it is empty or exceeds the budget."""
        text = base64.b64encode(entry.read()).decode()
        if not text or len(text) > self._left:
            return None
        self._left -= len(text)
        return Picture(
            source_id=entry.source_id, caption=entry.caption, data=f"data:image/jpeg;base64,{text}"
        )
