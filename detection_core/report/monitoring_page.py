"""The page of a comparison of served detections with evaluated ones."""

from detection_core.artifacts.box_profile import Histogram
from detection_core.artifacts.detection_statistics import ComparedProperty, Monitoring
from detection_core.report.figures import Chart, bar_chart
from detection_core.report.page import render

PAGE = "index.html"


def monitoring_page(found: Monitoring) -> str:
    """Return the page."""
    return render("monitoring_page.html", {"m": found, "charts": [_chart(each) for each in found.compared]})


def _chart(found: ComparedProperty) -> Chart:
    edges = [0.0] * len(found.bins)
    before, now = (Histogram(up_to=edges, counts=counts) for counts in found.counts)
    title = f"{found.name}: {'drifted' if found.drifted else 'as before'}"
    ticks = found.bins if found.name == "class" else [_tick(name) for name in found.bins]
    return bar_chart(title, found.name, {"evaluated": before, "served": now}, ticks, "counted")


def _tick(name: str) -> str:
    """Shorten the name of a bin to its lower edge, or to row/column."""
    lower = name.replace("below ", "<").partition(" to ")[0].removesuffix(" and more")
    return lower.replace("row ", "").replace(" column ", "/")
