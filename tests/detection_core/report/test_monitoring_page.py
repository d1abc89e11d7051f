"""The page of a comparison: what drifted, charts of all properties, and text of others escaped."""

import dataclasses

from detection_core.artifacts.detection_statistics import ComparedProperty, Monitoring
from detection_core.report.page import monitoring_page


def test_the_page_names_drift_and_draws_every_property():
    compared = [
        ComparedProperty(
            name=name, divergence=divergence, threshold=0.1, most_changed="<b>", before=0.5, after=0.25,
            bins=["<b>", "other"], counts=([3, 3], [1, 3]),
        )
        for name, divergence in (("class", 0.2), ("size", 0.0))
    ]  # fmt: skip
    made = Monitoring(
        model="models/<x>", statistics="s", images=1234, left_out={"damaged": 7}, compared=compared
    )
    page = monitoring_page(made)
    assert "1 of 2 properties drifted" in page and "class: drifted" in page and "size: as before" in page
    assert page.count("<figure>") == 2 and "served, &lt;b&gt;: 1 counted, 25.0 %" in page
    assert "models/&lt;x&gt;" in page and "7 left out: damaged" in page and "<b>:" not in page
    ranges = dataclasses.replace(
        compared[1], bins=["below 32", "32 to 64", "64 and more", "row 2 column 3"], counts=([1] * 4, [1] * 4)
    )
    page = monitoring_page(dataclasses.replace(made, compared=[ranges]))
    assert all(f">{tick}</text>" in page for tick in ("&lt;32", "32", "64", "2/3"))
    none = Monitoring(
        model="m", statistics="s", images=3, left_out={}, compared=[], not_judged="too few", triggered=True
    )
    assert "not judged: too few" in monitoring_page(none) and "<figure>" not in monitoring_page(none)
