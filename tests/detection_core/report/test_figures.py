import dataclasses
import itertools

import pytest

from detection_core.artifacts.box_profile import Histogram, SizeGrid
from detection_core.datasets.box_counter import BoxCounter
from detection_core.report import figures
from detection_core.report.figures import bar_chart, heat_map, profile_charts, profile_maps


def profiles(**splits):
    made = {}
    for name, boxes in splits.items():
        counter = BoxCounter()
        counter.add(boxes, 400, 200)
        made[name] = counter.profile()
    return made


def test_bars_are_parts_of_their_own_split_and_stand_beside_each_other():
    histograms = {
        "train": Histogram(up_to=[1, 2, 3], counts=[30, 10, 0]),
        "eval": Histogram(up_to=[1, 2, 3], counts=[1, 1, 2]),
    }
    chart = bar_chart("Boxes", "size", histograms, ["a", "b", "c"], "boxes")
    train = ["train, a: 30 boxes, 75.0 %", "train, b: 10 boxes, 25.0 %"]
    others = ["eval, a: 1 boxes, 25.0 %", "eval, b: 1 boxes, 25.0 %", "eval, c: 2 boxes, 50.0 %"]
    assert [bar.text for bar in chart.bars] == train + others
    heights = [bar.height for bar in chart.bars]
    assert heights[0] == pytest.approx(3 * heights[1]) and heights[1] == heights[2] == heights[3]
    assert {bar.series for bar in chart.bars} == {0, 1}
    assert chart.series == ["train", "eval"]
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
    assert heat_map("t", []).cells == []
    assert profile_charts({}) == profile_maps({}) == []
    assert profile_charts(profiles(train=[])) == profile_maps(profiles(train=[])) == []
    histogram = {"train": Histogram(up_to=list(range(9)), counts=[0, 0, 0, 5, 0, 1, 0, 0, 0])}
    chart = bar_chart("t", "x", histogram, list("abcdefghi"), "boxes")
    assert [text for _, text in chart.ticks] == ["c", "d", "e", "f", "g"]
    cells = {(column, row): shade for column, row, shade, _ in heat_map("t", [[0, 1], [4, 16]]).cells}
    assert cells == {(1, 0): 0.25, (0, 1): 0.5, (1, 1): 1.0}
    grid = SizeGrid(up_to=[0.5, 1.0], counts=[[1, 0], [0, 2]])
    drawn = figures.size_map("t", grid)
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
