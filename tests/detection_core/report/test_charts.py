import base64
import subprocess
import sys
from xml.etree import ElementTree

from detection_core.report.charts import ChartOptions, Line, line_chart

LINES = [
    Line(label="a $b^2$", x=[0, 1, 2], y=[3, 2, 1], series=0),
    Line(label="_<hidden>", x=[0, 1, 2], y=[1, 2, 3], series=1),
]
OPTIONS = ChartOptions(title="Loss & <rate>", x_label="step", y_label="loss")


def svg_of(chart):
    kind, _, data = chart.data.partition(",")
    assert kind == "data:image/svg+xml;base64"
    return ElementTree.fromstring(base64.b64decode(data))


def test_a_chart_is_an_image_without_links_of_odd_and_equal_data_too():
    chart = line_chart(LINES, OPTIONS)
    root = svg_of(chart)
    assert chart.title == "Loss & <rate>" and root.tag == "{http://www.w3.org/2000/svg}svg"
    text = ElementTree.tostring(root, encoding="unicode")
    assert "#0b62c4" in text and "#d9730d" in text
    links = [value for node in root.iter() for name, value in node.attrib.items() if name.endswith("href")]
    assert links and all(link.startswith("#") for link in links)
    assert not [node for node in root.iter() if node.tag.endswith(("script", "image", "foreignObject"))]
    log = ChartOptions(title="log", x_label="", y_label="", log_y=True)
    charts = (
        line_chart([Line(label="one", x=[5], y=[0.0])], OPTIONS),
        line_chart([Line(label="zero", x=[1, 2], y=[0, 1])], log),
        line_chart([Line(label="\x1b[31m\0", x=[1, 2], y=[0, 1])], OPTIONS),
    )
    for chart in charts:
        assert "#0b62c4" in ElementTree.tostring(svg_of(chart), encoding="unicode")
    assert line_chart(LINES, OPTIONS) == line_chart(LINES, OPTIONS)


def test_matplotlib_and_jinja2_are_loaded_only_to_draw():
    code = "import sys, pipeline.report; print({'matplotlib', 'jinja2', 'tensorflow'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
