from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree

from pipeline.report.charts import ChartOptions, Line, line_chart

LINES = [
    Line(label="a $b^2$", x=[0, 1, 2], y=[3, 2, 1], series=0),
    Line(label="_<hidden>", x=[0, 1, 2], y=[1, 2, 3], series=1),
]
OPTIONS = ChartOptions(title="Loss & <rate>", x_label="step", y_label="loss")


def test_an_element_whose_colours_are_the_theme_s():
    svg = line_chart(LINES, OPTIONS)
    assert svg.startswith("<svg")
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == "Loss & <rate>"
    assert root.get("width") is None  # as wide as its place in the page
    assert {"var(--s0)", "var(--s1)", "var(--grid)", "currentColor"} <= set(
        re.findall(r"var\([^)]*\)|currentColor", svg)
    )
    assert not re.findall(r"(?:fill|stroke): ?#[0-9a-f]{6}", svg)
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a $b^2$" in texts
    assert " _<hidden>" in texts


def test_two_charts_share_no_ids():
    first = re.findall(r' id="([^"]*)"', line_chart(LINES, OPTIONS))
    second = re.findall(r' id="([^"]*)"', line_chart(LINES, ChartOptions(title="b", x_label="", y_label="")))
    assert first
    assert not set(first) & set(second)


def test_odd_data():
    assert "<svg" in line_chart([Line(label="one", x=[5], y=[0.0])], OPTIONS)
    assert "<svg" in line_chart(
        [Line(label="zero", x=[1, 2], y=[0, 1])],
        ChartOptions(title="log", x_label="", y_label="", log_y=True),
    )


def test_matplotlib_is_loaded_only_to_draw():
    code = "import sys, pipeline.report; print({'matplotlib', 'jinja2', 'tensorflow'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
