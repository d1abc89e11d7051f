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
    return bar_chart(title, found.name, {"evaluated": before, "served": now}, found.bins, "counted")
