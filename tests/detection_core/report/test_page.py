"""The parts of a page: charts, figures, pictures and findings, as text that is safe to show."""

import base64
import dataclasses
import html
import itertools
import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts import dataset_card
from detection_core.artifacts.box_profile import (
    ANCHOR_MATCHES,
    BOX_PROFILES,
    AnchorMatch,
    AnchorMatches,
    BoxProfiles,
    Histogram,
    SizeGrid,
)
from detection_core.artifacts.data_findings import FINDINGS, DataFindings, Finding
from detection_core.artifacts.pictures import PICTURES, PictureEntry
from detection_core.datasets.counts import BoxCounter
from detection_core.errors import ContractError
from detection_core.report import figures
from detection_core.report.data_page import DatasetSummary, data_page, read_dataset
from detection_core.report.figures import Line, bar_chart, heat_map, line_chart, profile_charts, profile_maps
from detection_core.report.page import (
    CONTENT_SECURITY_POLICY,
    DASH,
    TEMPLATES,
    PictureBudget,
    duration,
    metric,
    moment,
    render,
    seconds_between,
    shown,
    signed,
    size,
    thousands,
)
from tests.support.cases import refused
from tests.support.command_line import run_python
from tests.support.html_page import Page

LINES = [
    Line(label="a $b^2$", x=[0, 1, 2], y=[3, 2, 1], thick=True),
    Line(label="_<hidden>\x1b", x=[0, 1, 2], y=[1, 2, 3]),
]
LIMITS = {"side_by_side": 2, "miss": 9}
ROOT = Path(__file__).parents[3]
JPEG = b"\xff\xd8\xff picture"


def test_numbers_durations_and_times_are_short_and_what_was_not_measured_is_a_dash():
    durations = {0.04: "0.0 s", 9.94: "9.9 s", 12.4: "12 s", 185: "3 min 05 s", 7620: "2 h 07 min"}
    assert {seconds: duration(seconds) for seconds in durations} == durations
    assert duration(None) == DASH
    assert {metric(value) for value in (None, math.nan, math.inf, -1.0, "x")} == {DASH}
    assert metric(0.12345) == "0.123" and metric(0.12345, 4) == "0.1235"
    assert signed(-0.01) == "\N{MINUS SIGN}0.010" and signed(0.01, 4) == "+0.0100"
    assert signed(None) == DASH
    assert [size(n) for n in (999, 1500, 3_104_880, 5e9)] == ["999 B", "1.5 kB", "3.1 MB", "5.0 GB"]
    assert thousands(1234567) == "1\u202f234\u202f567"
    assert moment("2026-11-20T22:00:00+00:00") == "20 Nov 2026, 22:00 UTC"
    assert moment("yesterday") == "yesterday"
    assert seconds_between("2026-11-20T22:00:00", "2026-11-20T22:01:30") == 90
    assert seconds_between("2026-11-20T22:00:00", "") is None


def svg_of(chart):
    macro = '{% import "figures.html" as f %}{{ f.chart(c) }}'
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
    return ElementTree.fromstring(environment.from_string(macro).render(c=chart).replace("\x1b", ""))


def places(line):
    """The points of a polyline."""
    return [tuple(map(float, point.split(","))) for point in line[0].split()]


def test_lines_are_drawn_to_scale_among_round_numbers_each_with_its_name():
    chart = line_chart("Loss & <rate>", "step", LINES)
    assert chart == line_chart("Loss & <rate>", "step", LINES)
    assert [text for _, text in chart.ticks] == ["0", "0.5", "1", "1.5", "2"]
    assert [text for _, text in chart.levels] == ["1", "1.5", "2", "2.5", "3"]
    first, second = map(places, chart.lines)
    assert [x for x, _ in first] == [x for x, _ in chart.ticks[::2]] == [x for x, _ in second]
    assert [y for _, y in first] == [y for y, _ in chart.levels[::-2]] == [y for _, y in second[::-1]]
    root = svg_of(chart)
    drawn = [(node.get("class"), node.find("title").text) for node in root.iter("polyline")]
    assert drawn == [("s0 thick", "a $b^2$"), ("s1", "_<hidden>")]
    assert root.find("svg").get("aria-label") == root.find("figcaption/b").text == "Loss & <rate>"
    many = line_chart("t", "x", [Line(label="l", x=range(100_000), y=[n % 2 for n in range(100_000)])])
    assert len(many.lines[0][0]) < 80_000  # what is not seen is not in the page


@pytest.mark.parametrize(
    ("line", "log_y", "levels", "count"),
    [
        (Line(label="one", x=[5], y=[0.0]), False, ["0", "1"], 2),
        (Line(label="zero", x=[1, 2], y=[0, 1]), True, ["1", "10"], 2),
        (Line(label="n", x=[1, 2, 3], y=[1, math.nan, 3.5]), False, ["1", "1.5", "2", "2.5", "3", "3.5"], 2),
        (Line(label="wide", x=[1, 2], y=[0.02, 300]), True, ["0.01", "0.1", "1", "10", "100", "1,000"], 2),
        (Line(label="below", x=[-3, 2], y=[-0.3, 0.0001]), False, ["-0.3", "-0.2", "-0.1", "0", "0.1"], 2),
        (Line(label="rate", x=[0, 9], y=[0.0, 4e-5]), False, ["0", "1e-05", "2e-05", "3e-05", "4e-05"], 2),
        (Line(label="none", x=[], y=[]), True, ["1", "10"], 0),
    ],
)  # fmt: skip
def test_odd_values_have_a_scale_too(line, log_y, levels, count):
    chart = line_chart("t", "x", [line], log_y=log_y)
    assert [text for _, text in chart.levels] == levels
    drawn = places(chart.lines[0])
    assert len(drawn) == count
    assert all(chart.left <= x <= figures.WIDTH and 0 <= y <= figures.HEIGHT for x, y in drawn)
    (node,) = svg_of(chart).iter("polyline")
    assert node.get("points") == chart.lines[0][0]


def test_precision_over_recall_has_axes_from_0_to_1():
    chart = line_chart("t", "recall", [Line(label="l", x=[0.2, 0.4], y=[0.5, 0.3])], unit_square=True)
    wanted = ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert [text for _, text in chart.ticks] == [text for _, text in chart.levels] == wanted


def test_matplotlib_and_jinja2_are_loaded_only_to_draw():
    code = "import sys, pipeline.report; print({'matplotlib', 'jinja2', 'tensorflow'} & set(sys.modules))"
    assert run_python(code).stdout.strip() == "set()"


def profiles(**splits):
    made = {}
    for name, boxes in splits.items():
        counter = BoxCounter()
        counter.add(boxes, 400, 200)
        made[name] = counter.profile()
    return made


def test_bars_are_parts_of_their_own_split_and_stand_beside_each_other():
    counts = {"train": [30, 10, 0], "eval": [1, 1, 2]}
    histograms = {split: Histogram(up_to=[1, 2, 3], counts=found) for split, found in counts.items()}
    chart = bar_chart("Boxes", "size", histograms, ["a", "b", "c"], "boxes")
    train = ["train, a: 30 boxes, 75.0 %", "train, b: 10 boxes, 25.0 %"]
    others = ["eval, a: 1 boxes, 25.0 %", "eval, b: 1 boxes, 25.0 %", "eval, c: 2 boxes, 50.0 %"]
    assert [bar.text for bar in chart.bars] == train + others
    heights = [bar.height for bar in chart.bars]
    assert heights[0] == pytest.approx(3 * heights[1]) and heights[1] == heights[2] == heights[3]
    assert {bar.series for bar in chart.bars} == {0, 1} and chart.series == ["train", "eval"]
    for bar in chart.bars:
        assert 0 <= bar.x <= bar.x + bar.width <= figures.WIDTH
        assert 0 <= bar.y <= bar.y + bar.height <= figures.HEIGHT
    histograms = {name: Histogram(up_to=[1, 2], counts=[4, 4]) for name in "abc"}
    bars = bar_chart("t", "x", histograms, ["1", "2"], "n").bars
    edges = sorted((bar.x, bar.x + bar.width) for bar in bars)
    assert all(end <= begin + 0.02 for (_, end), (begin, _) in itertools.pairwise(edges))


def test_nothing_is_drawn_of_nothing_and_the_fullest_cell_is_the_darkest():
    assert bar_chart("t", "x", {}, [], "boxes").bars == []
    assert bar_chart("t", "x", {"train": Histogram(up_to=[1], counts=[0])}, ["a"], "boxes").bars == []
    assert heat_map("t", []).cells == [] and profile_charts({}) == profile_maps({}) == []
    assert profile_charts(profiles(train=[])) == profile_maps(profiles(train=[])) == []
    histogram = {"train": Histogram(up_to=list(range(9)), counts=[0, 0, 0, 5, 0, 1, 0, 0, 0])}
    chart = bar_chart("t", "x", histogram, list("abcdefghi"), "boxes")
    assert [text for _, text in chart.ticks] == ["c", "d", "e", "f", "g"]
    cells = {(column, row): shade for column, row, shade, _ in heat_map("t", [[0, 1], [4, 16]]).cells}
    assert cells == {(1, 0): 0.25, (0, 1): 0.5, (1, 1): 1.0}
    drawn = figures.size_map("t", SizeGrid(up_to=[0.5, 1.0], counts=[[1, 0], [0, 2]]))
    assert {(c, r): text for c, r, _, text in drawn.cells} == {(0, 1): "1 boxes", (1, 0): "2 boxes"}
    assert drawn.x_ticks == [(2, "100")] and drawn.y_ticks == [(0.0, "100")]


def test_a_data_set_has_three_charts_and_three_maps_a_split():
    found = profiles(train=[(0.0, 0.0, 40.0, 20.0)], eval=[(100.0, 100.0, 200.0, 150.0)] * 3)
    titles = ["Size of the boxes", "Shape of the boxes", "Boxes of an image"]
    assert [chart.title for chart in profile_charts(found)] == titles
    maps = profile_maps(found)
    assert [m.title.partition(":")[0] for m in maps] == ["train"] * 3 + ["eval"] * 3
    assert maps[0].cells == [(0, 0, 1.0, "1 boxes")]
    per_image = profile_charts(found)[2]
    said = {"eval, 3 to 4: 1 images, 100.0 %", "train, 1: 1 images, 100.0 %"}
    assert said <= {bar.text for bar in per_image.bars}
    wide = profile_charts(found)[1]
    assert all("\N{LESS-THAN OR EQUAL TO}2" in bar.text for bar in wide.bars)
    assert dataclasses.asdict(per_image) == dataclasses.asdict(profile_charts(found)[2])


def picture(number):
    return b"\xff\xd8\xff" + bytes([number]) * 297


def test_pictures_are_limited_by_kind_and_by_a_budget_for_all(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    index = []
    for i, kind in enumerate(["side_by_side"] * 3 + ["miss"] * 2 + ["false_positive", "other"]):
        (folder / f"{i}.jpg").write_bytes(picture(i))
        index.append({"kind": kind, "source_id": f"s{i}", "caption": f"c{i}", "file": f"{i}.jpg"})
    (folder / "index.jsonl").write_text("\n".join(map(json.dumps, index)))
    found = PictureBudget().embed(str(tmp_path), LIMITS)
    sources = {kind: [p.source_id for p in pictures] for kind, pictures in found.items()}
    assert sources == {"side_by_side": ["s0", "s1"], "false_positive": [], "miss": ["s3", "s4"]}
    kind, _, text = found["miss"][0].data.partition(",")
    assert kind == "data:image/jpeg;base64" and base64.b64decode(text) == picture(3)
    (folder / "3.jpg").unlink()
    assert [p.source_id for p in PictureBudget().embed(str(tmp_path), LIMITS)["miss"]] == ["s4"]
    assert PictureBudget().embed(str(tmp_path / "nowhere"), LIMITS)["miss"] == []
    budget = PictureBudget(left=1200)  # three pictures of 400 characters
    first = budget.embed(str(tmp_path), {"side_by_side": 2})
    second = budget.embed(str(tmp_path), LIMITS)
    assert [len(first["side_by_side"]), len(second["side_by_side"]), len(second["miss"])] == [2, 1, 0]


def page_of(name: str) -> str:
    card = dataset_card.DatasetCard(classes=[dataset_card.ClassCard(name=name, objects=3)])
    return render("dataset_page.html", {"dataset": DatasetSummary(card=card)})


PLAIN = Page(page_of("cat"))


@settings(deadline=None, max_examples=15)
@given(st.text(min_size=1))
def test_whatever_a_text_is_it_stays_one(text):
    found = Page(page_of(text))
    assert found.tags == PLAIN.tags
    assert shown(text) in found.text.replace("\r", "\n") or "\r" in text


def test_a_page_forbids_all_but_its_own_pictures_and_no_template_marks_anything_as_safe():
    text = page_of("cat")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and html.unescape(policy[1]) == CONTENT_SECURITY_POLICY
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'")
    assert "script" not in CONTENT_SECURITY_POLICY
    assert text.index("Content-Security-Policy") < text.index("<style>")
    assert r"a\x00\x1b[31m\u202e&lt;" in page_of("a\0\x1b[31m\u202e<")
    templates = [*Path(TEMPLATES).glob("*.html"), *(ROOT / "pipeline" / "report").glob("*.html")]
    assert len(templates) >= 5
    for path in templates:
        assert not re.search(r"\|\s*safe|autoescape|Markup", path.read_text()), path
    refused(ValueError, r"nowhere\.html", render, "nowhere.html", {})


def _grid(count):
    return SizeGrid(up_to=[0.5, 1.0], counts=[[count, 0], [0, 0]])


@pytest.fixture
def folder(tmp_path):
    """Everything that DataValidator leaves of a small data set."""
    split = dataset_card.SplitCard(images=2, objects=3, classes={"<cat>": 3})
    classes = [dataset_card.ClassCard(id=1, name="<cat>", objects=3)]
    counted = {"splits": {"train": split}, "total": dataset_card.Totals(images=2, objects=3)}
    dataset_card.CARD.write(str(tmp_path), dataset_card.DatasetCard(format="voc", classes=classes, **counted))
    counter = BoxCounter()
    counter.add([(0.0, 0.0, 40.0, 20.0)] * 3, 400, 200)
    BOX_PROFILES.write(str(tmp_path), BoxProfiles(splits={"train": counter.profile()}))
    overlaps = Histogram(up_to=[0.5, 1.0], counts=[1, 3])
    match = AnchorMatch(boxes=4, matched=3, overlaps=overlaps, sizes=_grid(4), unmatched=_grid(1))
    network = {"input_size": (160, 200), "anchors": 1200, "shapes": [(0.2, 0.3)]}
    ANCHOR_MATCHES.write(str(tmp_path), AnchorMatches(splits={"train": match}, **network))
    dataset_card.QUARANTINE.write(
        str(tmp_path), [dataset_card.QuarantinedEntry(split="train", file="b.xml", reason="box_outside")]
    )
    place = tmp_path / "pictures"
    place.mkdir()
    (place / "a.jpg").write_bytes(JPEG)
    (place / "s.jpg").write_bytes(JPEG + b"small")
    sample = PictureEntry(kind="sample", caption="<cat>", source_id="train: 1", file="a.jpg")
    smallest = PictureEntry(kind="smallest", caption="<cat>, 3 px", source_id="train: 2", file="s.jpg")
    PICTURES.write(str(place), [sample, smallest])
    said = {"id": "a", "check": "rare_class", "severity": "warn", "message": "few <cats>"}
    finding = Finding(**said, measured=3, threshold=10)
    FINDINGS.write(str(tmp_path), DataFindings(findings=[finding], checks={"rare_class": "warn"}))
    return str(tmp_path)


def test_the_page_of_a_data_set_is_made_from_one_folder(folder):
    page = data_page(folder, title="my <data>")
    for text in (
        "my &lt;data&gt;",
        "Size of the boxes",
        "train: where centres are",
        "75.0 % of 4 boxes have an anchor",
        "160 x 200 pixels",
        "<h4>&lt;cat&gt;</h4>",
        "&lt;cat&gt;, 3 px",
        "b.xml",
        "few &lt;cats&gt;",
    ):
        assert text in page, text
    assert page.count("data:image/jpeg;base64,") == 2 and "<script" not in page and "://" not in page
    assert page == data_page(folder, title="my <data>")
    assert "data:image/jpeg" not in data_page(folder, sample_bytes=5)


def test_what_an_older_version_left_has_findings_alone(tmp_path, folder):
    FINDINGS.write(str(tmp_path / "old"), DataFindings(findings=[]))
    assert read_dataset(str(tmp_path / "old")) is None and read_dataset("") is None
    page = data_page(str(tmp_path / "old"))
    assert "Nothing was found" in page and 'id="data"' not in page
    refused(ContractError, "", data_page, str(tmp_path / "nothing"))
