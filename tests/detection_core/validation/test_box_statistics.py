"""Statistics of a sample's objects, how two samples differ, and anchors laid over boxes."""

import collections
import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import jensenshannon

from detection_core.artifacts.box_profile import ANCHOR_MATCHES
from detection_core.artifacts.data_statistics import Histogram, SampleStatistics
from detection_core.data.resize import FixedShapeResizer, IdentityResizer, KeepAspectRatioResizer
from detection_core.datasets.counts import SIDES
from detection_core.report.figures import anchor_charts, anchor_maps
from detection_core.validation import box_statistics, network_view
from detection_core.validation.box_statistics import (
    ASPECTS,
    GRID,
    SIZES,
    SampleCounter,
    compare,
    holm,
    jensen_shannon,
)
from detection_core.validation.checks import check_classes
from detection_core.validation.labelled_images import parse_record
from tests.detection_core.validation.samples import LABELS, findings_of, found_by, labelled
from tests.support.made_examples import CLASSES, Made, encode

ANCHORS = np.array([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0], [0.0, 0.0, 1.0, 0.25]], np.float32)
SQUARE = FixedShapeResizer(height=100, width=100)
PADDED = KeepAspectRatioResizer(min_dimension=100, max_dimension=100, pad_to_max_dimension=True)
SMALL = FixedShapeResizer(height=64, width=64)
TWO_ANCHORS = np.asarray([[0.0, 0.0, 0.5, 0.5], [0.4, 0.4, 0.8, 0.8]], np.float32)


def _images(count, seed=0):
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        objects = int(random.integers(0, 7))
        corners = random.uniform(0, 0.6, (objects, 2))
        sides = random.uniform(0.005, 0.4, (objects, 2))
        boxes = tuple(map(tuple, np.concatenate([corners, corners + sides], axis=1).astype(np.float32)))
        classes = tuple(random.choice(CLASSES, objects))
        crowd = tuple(int(c) for c in random.integers(0, 6, objects) == 0)
        size = (int(random.integers(20, 90)), int(random.integers(20, 90)))
        made.append(Made(picture=1, boxes=boxes, classes=classes, crowd=crowd, size=size))
    return [labelled(n, m) for n, m in enumerate(made)]


def _bin(edges, value):
    return sum(value >= edge for edge in edges)


def _side(box, axis):
    return box[2 + axis] - box[axis]


def _cell(box, axis):
    return int((box[axis] + box[2 + axis]) / 2 * GRID)


_PICKS = {
    "class": (2, lambda image, box, label: label),
    "size": (len(SIZES) + 1, lambda i, b, _: _bin(SIZES, np.sqrt(_side(b, 0) * _side(b, 1)))),
    "aspect": (
        len(ASPECTS) + 1,
        lambda i, b, _: _bin(ASPECTS, _side(b, 1) * i.width / _side(b, 0) / i.height),
    ),
    "place": (GRID * GRID, lambda i, b, _: _cell(b, 0) * GRID + _cell(b, 1)),
}


def _by_loops(images, bins, pick):
    """Sums of one histogram as their names say, one object after the other."""
    sums = {field: [0] * bins for field in ("counts", "squares", "products", "images")}
    sums["total_squares"] = 0
    for image in images:
        x = [0] * bins
        for row, label, crowd in zip(image.boxes, image.classes, image.is_crowd, strict=True):
            x[pick(image, row, label)] += not crowd
        sums["total_squares"] += sum(x) ** 2
        for i, count in enumerate(x):
            sums["counts"][i] += count
            sums["squares"][i] += count * count
            sums["products"][i] += count * sum(x)
            sums["images"][i] += count > 0
    return sums


def _counted(images):
    counter = SampleCounter(CLASSES)
    for image in images:
        counter.add(image)
    return counter.statistics()


def test_the_sums_are_those_of_a_loop_and_parts_add_up_to_the_whole():
    images = _images(700)  # more than are counted at once
    found = _counted(images)
    kept = [int((~image.is_crowd).sum()) for image in images]
    assert (found.images, found.objects, found.empty_images) == (700, sum(kept), kept.count(0))
    for name, (bins, pick) in _PICKS.items():
        histogram, sums = found.histograms[name], _by_loops(images, bins, pick)
        assert {field: getattr(histogram, field) for field in sums} == sums, name
        assert len(histogram.bins) == bins
    sides = [np.sqrt(i.height * i.width) for i in images]
    edges_of = {"objects of an image": box_statistics.COUNTS, "image size": box_statistics.PIXELS}
    for (name, edges), values in zip(edges_of.items(), (kept, sides), strict=True):
        counts = collections.Counter(_bin(edges, value) for value in values)
        assert found.histograms[name].counts == [counts[i] for i in range(len(edges) + 1)]
    images = _images(60)
    parts = [_counted(images[:17]), _counted(images[17:])]
    assert box_statistics.add_up(parts) == _counted(images) and box_statistics.add_up([]).images == 0
    other = SampleCounter(["dog", "cow"]).statistics()
    both = box_statistics.add_up([parts[0], other])
    assert list(both.counts_by_bin("class")) == ["cat", "dog", "cow"]
    found = _counted([parse_record(encode(Made(classes=("cow",), size=(1, 5000)), 0, ("cow",)), 0, LABELS)])
    assert found.counts_by_bin("class") == {"cat": 0, "dog": 0} and found.objects == 1


def _sample(images=100, empty=0, **classes):
    counts = list(classes.values())
    histogram = Histogram(bins=list(classes), counts=counts, squares=counts, products=counts, images=counts)
    shown = {"images": images, "empty_images": empty, "objects": sum(counts)}
    return SampleStatistics(**shown, histograms={"class": histogram})


def _found(splits, classes=("cat", "dog"), **given):
    return found_by(check_classes, splits, classes, **given)


def test_empty_images_and_classes_that_vanished_or_are_rare_are_found():
    assert _found({"train": _sample(cat=50, dog=10), "eval": _sample(cat=5, dog=5)}) == {}
    found = _found({"train": _sample(empty=51, cat=50, dog=20)})
    assert found["empty_images:train"].measured == 0.51
    assert _found({"train": _sample(empty=50, cat=50, dog=20)}) == {}
    names = [f"class {i}" for i in range(40)]
    found = _found({"train": _sample(**dict.fromkeys(names, 0))}, names)
    assert "class 9 and 30 more" in found["class_without_objects:train"].message
    found = _found({"train": _sample(cat=50, dog=0), "eval": _sample(cat=5, dog=5)})
    assert set(found) == {"class_without_objects:train", "class_not_trained:eval"}
    assert found["class_without_objects:train"].count == 1
    assert "none in train: dog" in found["class_not_trained:eval"].message
    found = _found({"train": _sample(cat=50, dog=9), "eval": _sample(cat=5, dog=0)})
    assert set(found) == {"rare_class:train", "class_not_measured:eval"}
    assert "dog (9)" in found["rare_class:train"].message and found["rare_class:train"].measured == 9
    assert "rare_class:train" not in _found({"train": _sample(cat=50, dog=9)}, rare_class={"threshold": 9})


def of_table(table, bins=None):
    """The histogram of objects by image and bin, [images, bins]."""
    table = np.asarray(table)
    totals = table.sum(axis=1)
    bins = bins or [str(i) for i in range(table.shape[1])]
    sums = {"counts": table, "squares": table**2, "products": table * totals[:, None], "images": table > 0}
    sums = {name: values.sum(0).tolist() for name, values in sums.items()}
    return Histogram(bins=bins, **sums, total_squares=int((totals**2).sum()))


def test_divergence_is_that_of_scipy_between_bins_of_one_name():
    random = np.random.default_rng(0)
    for _ in range(20):
        p, q = random.dirichlet(np.ones(6), 2)
        assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q, base=2) ** 2)
    assert jensen_shannon(np.asarray([1.0, 0.0]), np.asarray([0.0, 1.0])) == 1.0
    assert jensen_shannon(np.asarray([0.5, 0.5]), np.asarray([0.5, 0.5])) == 0.0
    # Sorted 0.01, 0.02, 0.04 times 3, 2, 1; never below the one before.
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []
    few, more = [[1, 0]] * 30 + [[0, 1]] * 20, [[1, 0]] * 20 + [[0, 1]] * 30
    alike = compare(of_table(few, ["a", "b"]), of_table(more, ["b", "a"]))
    assert alike.divergence == pytest.approx(0) and alike.p_value == pytest.approx(1)
    new = compare(of_table([[1, 0]] * 50, ["a", "b"]), of_table([[1]] * 50, ["c"]))
    assert new.divergence == pytest.approx(1) and new.p_value < 1e-6
    assert (new.most_changed, new.before, new.after) == ("a", 0.0, 1.0)
    for one, other in ([[0, 0]], [[5, 5]]), ([[1, 0]] * 100, [[1, 0]] * 100), ([[1, 0]] * 4, [[0, 1]] * 4):
        assert compare(of_table(one), of_table(other)) is None, (one, other)


def test_two_shares_are_tested_as_in_the_textbooks_and_herds_count_less():
    random = np.random.default_rng(1)
    tables = [random.multinomial(1, p, n) for p, n in (((0.6, 0.4), 400), ((0.5, 0.5), 300))]
    found = compare(*map(of_table, tables))
    expected = stats.chi2_contingency(np.stack([t.sum(0) for t in tables]), correction=False)
    # Two bins are compared, which say the same; the variance is that of these images, not the binomial one.
    assert found.p_value == pytest.approx(2 * expected.pvalue, rel=0.1)
    # Copying every object ten times within its image adds nothing that is known.
    random = np.random.default_rng(2)
    tables = [random.multinomial(1, p, 200) for p in ((0.6, 0.4), (0.45, 0.55))]
    alone = compare(*map(of_table, tables))
    herds = compare(*(of_table(table * 10) for table in tables))
    assert herds.p_value == pytest.approx(alone.p_value, rel=1e-9)
    common = np.eye(3, dtype=int)[[0] * 100 + [1] * 100]
    found = compare(of_table(np.eye(3, dtype=int)[[0] * 100 + [1] * 100 + [2] * 9]), of_table(common))
    assert found.most_changed in "01" and found.p_value == 1.0


def test_the_statistic_is_that_of_a_loop_over_images():
    random = np.random.default_rng(3)
    shares = [random.dirichlet([0.5] * 3, n) for n in (300, 150)]
    tables = [random.poisson(random.gamma(1.0, 2.0, (len(share), 1)) * share) for share in shares]
    found = compare(*map(of_table, tables))
    totals = [table.sum() for table in tables]
    pooled = sum(table.sum(0) for table in tables) / sum(totals)
    largest = 0.0
    for k in range(3):
        shares = [table[:, k].sum() / total for table, total in zip(tables, totals, strict=True)]
        variances = [
            sum((row[k] - pooled[k] * row.sum()) ** 2 for row in table) / total**2
            for table, total in zip(tables, totals, strict=True)
        ]
        largest = max(largest, abs(shares[0] - shares[1]) / math.sqrt(sum(variances)))
    assert found.p_value == pytest.approx(min(1.0, 3 * 2 * stats.norm.sf(largest)), rel=1e-9)


def _boxes(*boxes):
    sizes = np.full((len(boxes), 2), (200, 400), np.int32)
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    return network_view.SampledBoxes(
        boxes=boxes, sizes=sizes, records=np.arange(len(boxes)), total=len(boxes)
    )


def _view(resizer=SMALL, anchors=None):
    return network_view.NetworkView(resizer=resizer, anchors=anchors)


def test_anchors_are_matched_and_drawn_where_boxes_of_their_size_are(tmp_path):
    boxes = _boxes((0, 0, 0.5, 0.5), (0.5, 0.5, 1.0, 0.9), (0.9, 0.9, 1.0, 1.0))
    found = network_view.match_anchors({"train": boxes, "eval": _boxes()}, _view(anchors=ANCHORS))
    assert list(found.splits) == ["train"]
    match = found.splits["train"]
    assert (match.boxes, match.matched) == (3, 2)
    # Overlaps of 1, 0.8 and 0.04.
    assert match.overlaps.counts == [1, 0, 0, 0, 0, 0, 0, 1, 0, 1]
    small = int(np.searchsorted(SIDES, 0.1))
    assert np.array(match.unmatched.counts).sum() == 1 and match.unmatched.counts[small][small] == 1
    assert np.array(match.sizes.counts).sum() == 3 and (found.anchors, found.input_size) == (3, (64, 64))
    assert found.shapes == [(0.5, 0.5), (1.0, 0.25)]
    ANCHOR_MATCHES.write(str(tmp_path), found)
    assert ANCHOR_MATCHES.read(str(tmp_path)) == found
    assert network_view.match_anchors({"train": _boxes((0, 0, 1, 1))}, _view()) is None
    found = network_view.match_anchors({"train": _boxes((0, 0, 0.5, 0.5))}, _view(anchors=ANCHORS))
    boxes, unmatched = anchor_maps(found)
    size = len(SIDES)
    # A box of half the input is in the bin whose upper edge is a half, and the dot is on that edge.
    assert [(column, row) for column, row, _, _ in boxes.cells] == [(size - 3, 2)]
    assert boxes.points == [(pytest.approx(size - 4), 0.0), (pytest.approx(size - 2), 2.0)]
    assert unmatched.cells == [] and unmatched.points == []
    (chart,) = anchor_charts(found)
    assert [bar.text for bar in chart.bars] == ["train, \N{LESS-THAN OR EQUAL TO}1: 1 boxes, 100.0 %"]


def test_boxes_are_seen_by_the_network_and_found_where_they_cannot_be_learned(monkeypatch):
    sample = _boxes((0.0, 0.0, 0.5, 0.1), (0.0, 0.0, 0.03, 1.0))
    # Padded, 200 x 400 becomes 50 x 100.
    for resizer, sides in ((SQUARE, [10, 3]), (PADDED, [10, 1.5])):
        np.testing.assert_allclose(_view(resizer).shorter_sides(sample), sides, rtol=1e-5)
    sizes = np.asarray([(200, 400), (400, 200), (200, 400), (50, 50)], np.int32)
    assert _view(PADDED).resized_sizes(sizes).tolist() == [[50, 100], [100, 50], [50, 100], [100, 100]]
    assert _view(IdentityResizer()).resized_sizes(sizes).tolist() == sizes.tolist()
    assert _view(PADDED).resized_sizes(np.zeros((0, 2), np.int32)).shape == (0, 2)
    # The upper half of the padded input is the image: its box of full height is half as high there.
    sample = _boxes((0.0, 0.0, 1.0, 0.5), (0.8, 0.8, 1.0, 1.0))
    np.testing.assert_allclose(_view(PADDED, TWO_ANCHORS).best_overlaps(sample)[0], 1.0, rtol=1e-5)
    view = _view(SQUARE, TWO_ANCHORS)
    np.testing.assert_allclose(view.best_overlaps(sample), [0.5, 0.0], rtol=1e-5)
    monkeypatch.setattr("detection_core.validation.network_view._PAIRS", 5)
    boxes = np.sort(np.random.default_rng(0).uniform(0, 1, (17, 2, 2)), axis=1).reshape(-1, 4)
    at_once = [float(view.best_overlaps(_boxes(box))[0]) for box in boxes]
    np.testing.assert_allclose(view.best_overlaps(_boxes(*boxes)), at_once, rtol=1e-6)
    sample = _boxes((0.0, 0.0, 0.5, 0.5), (0.4, 0.4, 0.8, 0.8), (0.9, 0.9, 0.93, 1.0))
    found, _ = _found_by_view(sample, _view(SQUARE, TWO_ANCHORS))
    tiny, [unmatched] = found["tiny_boxes"], found["unmatched_boxes"].examples
    assert tiny.measured == pytest.approx(1 / 3) and tiny.count == 1
    assert [(example.record, example.note) for example in tiny.examples] == [(2, "3.0 pixels")]
    assert (unmatched.record, unmatched.note) == (2, "best anchor at IoU 0.00")
    for view in (_view(SQUARE), _view(KeepAspectRatioResizer(), TWO_ANCHORS)):
        found, outcomes = _found_by_view(_boxes((0.0, 0.0, 0.5, 0.5)), view)
        assert found == {} and outcomes["unmatched_boxes"] == "the detector has no fixed anchors"
    assert _found_by_view(_boxes(), _view(SQUARE, TWO_ANCHORS))[0] == {}


def _found_by_view(sample, view):
    findings = findings_of(network_view.check_boxes_at_input, "train", sample, view)
    return {f.check: f for f in findings.findings()}, findings.outcomes()


def test_every_box_is_drawn_with_the_same_probability():
    image = labelled(boxes=((0.1, 0.1, 0.2, 0.2), (0.3, 0.3, 0.4, 0.4)), classes=("cat", "dog"), crowd=(0, 1))
    drawn = np.zeros(100)
    for first in range(0, 30_000, 100):
        sample = network_view.BoxSample(size=10)
        for number in range(first, first + 100):
            sample.add_boxes(dataclasses.replace(image, record=number))
        found = sample.drawn()
        assert found.total == 100 and len(found.boxes) == 10
        drawn[found.records - first] += 1
    # 300 draws of 0.1: 30 each, with a standard deviation of 5.2.
    assert drawn.min() > 30 - 5 * 5.2 and drawn.max() < 30 + 5 * 5.2
