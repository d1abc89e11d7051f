import dataclasses

import numpy as np
import pytest

from detection_core.data.resize import FixedShapeResizer, IdentityResizer, KeepAspectRatioResizer
from detection_core.validation.network_view import BoxSample, NetworkView, SampledBoxes, check_boxes_at_input
from tests.detection_core.validation.samples import findings_of, labelled

SQUARE = FixedShapeResizer(height=100, width=100)
PADDED = KeepAspectRatioResizer(min_dimension=100, max_dimension=100, pad_to_max_dimension=True)
ANCHORS = np.asarray([[0.0, 0.0, 0.5, 0.5], [0.4, 0.4, 0.8, 0.8]], np.float32)


def _sample(*boxes, size=(200, 400)):
    sizes = np.full((len(boxes), 2), size, np.int32)
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    return SampledBoxes(boxes=boxes, sizes=sizes, records=np.arange(len(boxes)), total=len(boxes))


def _view(resizer, anchors=None):
    return NetworkView(resizer=resizer, anchors=anchors)


def test_boxes_are_seen_by_the_network_and_found_where_they_cannot_be_learned(monkeypatch):
    sample = _sample((0.0, 0.0, 0.5, 0.1), (0.0, 0.0, 0.03, 1.0))
    # Padded, 200 x 400 becomes 50 x 100.
    for resizer, sides in ((SQUARE, [10, 3]), (PADDED, [10, 1.5])):
        np.testing.assert_allclose(_view(resizer).shorter_sides(sample), sides, rtol=1e-5)
    sizes = np.asarray([(200, 400), (400, 200), (200, 400), (50, 50)], np.int32)
    padded = _view(PADDED).resized_sizes(sizes)
    assert padded.tolist() == [[50, 100], [100, 50], [50, 100], [100, 100]]
    assert _view(IdentityResizer()).resized_sizes(sizes).tolist() == sizes.tolist()
    assert _view(PADDED).resized_sizes(np.zeros((0, 2), np.int32)).shape == (0, 2)
    # The upper half of the padded input is the image: its box of full height is half as high there.
    sample = _sample((0.0, 0.0, 1.0, 0.5), (0.8, 0.8, 1.0, 1.0))
    np.testing.assert_allclose(_view(PADDED, ANCHORS).best_overlaps(sample)[0], 1.0, rtol=1e-5)
    view = _view(SQUARE, ANCHORS)
    np.testing.assert_allclose(view.best_overlaps(sample), [0.5, 0.0], rtol=1e-5)
    monkeypatch.setattr("detection_core.validation.network_view._PAIRS", 5)
    random = np.random.default_rng(0)
    boxes = np.sort(random.uniform(0, 1, (17, 2, 2)), axis=1).reshape(-1, 4)
    at_once = [float(view.best_overlaps(_sample(box))[0]) for box in boxes]
    np.testing.assert_allclose(view.best_overlaps(_sample(*boxes)), at_once, rtol=1e-6)
    sample = _sample((0.0, 0.0, 0.5, 0.5), (0.4, 0.4, 0.8, 0.8), (0.9, 0.9, 0.93, 1.0))
    found, _ = _found(sample, _view(SQUARE, ANCHORS))
    tiny, [unmatched] = found["tiny_boxes"], found["unmatched_boxes"].examples
    assert tiny.measured == pytest.approx(1 / 3) and tiny.count == 1
    assert [(example.record, example.note) for example in tiny.examples] == [(2, "3.0 pixels")]
    assert (unmatched.record, unmatched.note) == (2, "best anchor at IoU 0.00")
    for view in (_view(SQUARE), _view(KeepAspectRatioResizer(), ANCHORS)):
        found, outcomes = _found(_sample((0.0, 0.0, 0.5, 0.5)), view)
        assert found == {} and outcomes["unmatched_boxes"] == "the detector has no fixed anchors"
    assert _found(_sample(), _view(SQUARE, ANCHORS))[0] == {}


def _found(sample, view):
    findings = findings_of(check_boxes_at_input, "train", sample, view)
    return {f.check: f for f in findings.findings()}, findings.outcomes()


def test_every_box_is_drawn_with_the_same_probability():
    boxes = ((0.1, 0.1, 0.2, 0.2), (0.3, 0.3, 0.4, 0.4))
    image = labelled(boxes=boxes, classes=("cat", "dog"), crowd=(0, 1))
    images = [dataclasses.replace(image, record=number) for number in range(100)]
    drawn = np.zeros(100)
    for seed in range(300):
        sample = BoxSample(size=10)
        sample._random.seed(seed)
        for each in images:
            sample.add(each)
        found = sample.drawn()
        assert found.total == 100 and len(found.boxes) == 10
        drawn[found.records] += 1
    # 300 draws of 0.1: 30 each, with a standard deviation of 5.2.
    assert drawn.min() > 30 - 5 * 5.2 and drawn.max() < 30 + 5 * 5.2
