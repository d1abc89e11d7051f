"""Metrics against slow loops, pycocotools and the numbers of the Object Detection API."""

import contextlib
import dataclasses
import itertools
import json
import math
import types
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts.evaluation import COCO_METRICS, KEYPOINT_METRICS, MASK_METRICS, category_metric
from detection_core.config.metric_names import COCO_SET, MASK_SETS
from detection_core.errors import ConfigError, DataError, ModelError
from detection_core.evaluation import coco_matching, metric_sets
from detection_core.evaluation.coco_format import check_keypoints
from detection_core.evaluation.coco_matching import join_tables, match_images, unpack
from detection_core.evaluation.coco_metrics import BOXES, SHAPE_KINDS, evaluate_coco
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.metric_sets import VOC_SETS, MetricOptions, compute_metrics, known_metrics
from detection_core.evaluation.results import (
    IN_CROWD,
    NOT_MATCHED,
    EvaluatedImage,
    best_score_threshold,
    box_areas,
    finds_any,
    iou_px,
    match_image,
    only_labelled,
    to_px,
)
from detection_core.evaluation.voc_metrics import VocOptions, average_precision, evaluate_voc
from tests.support.cases import cases, refused
from tests.support.coco_dictionaries import coco_dictionaries
from tests.support.evaluated_images import (
    DATA,
    NAMES,
    coco_engine,
    evaluated,
    golden_images,
    make_detections,
    make_truth,
    random_boxes,
    random_images,
    shaped_images,
)

ARRAYS = np.load(DATA / "evaluation_fixture.npz")
LEFT, RIGHT = [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]
VOC_NAMES = {0: "cat", 1: "dog", 2: "bird", 3: "fish"}
PASCAL, WEIGHTED = "pascal_voc_detection_metrics", "weighted_pascal_voc_detection_metrics"
AT_RECALL = "precision_at_recall_detection_metrics"
BOX_SETS = tuple(name for name in VOC_SETS if name not in MASK_SETS)
OPEN_IMAGES, CHALLENGE = "oid_V2_detection_metrics", "oid_challenge_detection_metrics"


def test_overlaps_are_those_by_hand_and_only_labelled_classes_count():
    truth = make_truth([[0.1, 0.2, 0.5, 0.6]], [0], height=100, width=200)
    boxes = to_px(truth.boxes, truth)
    np.testing.assert_allclose(boxes, [[10, 40, 50, 120]], rtol=1e-6)
    np.testing.assert_allclose(box_areas(boxes), [3200], rtol=1e-6)
    assert to_px(np.zeros(0), truth).shape == (0, 4)
    found = np.array([[0, 0, 10, 10], [20, 20, 20, 20]])
    true = np.array([[0, 5, 10, 15], [0, 0, 100, 100]])
    plain = iou_px(found, true, np.array([False, False]))
    np.testing.assert_allclose(plain, [[50 / 150, 100 / 10000], [0, 0]])
    np.testing.assert_allclose(iou_px(found, true, np.array([True, True])), [[0.5, 1.0], [0, 0]])
    assert iou_px(np.zeros((0, 4)), true, np.array([False, False])).shape == (0, 2)
    first, second = ARRAYS["np_box_ops/boxes1"], ARRAYS["np_box_ops/boxes2"]
    no_crowd = np.zeros(len(second), bool)
    np.testing.assert_allclose(iou_px(first, second, no_crowd), ARRAYS["np_box_ops/iou"], atol=1e-6)
    # Its "ioa" divides by the area of the second box; ours, for crowds, by the detection's.
    shares = iou_px(second, first, np.ones(len(first), bool)).T
    np.testing.assert_allclose(shares, ARRAYS["np_box_ops/ioa"], atol=1e-6)
    truth = make_truth([[0, 0, 1, 1]], [0])
    found = make_detections([[0, 0, 1, 1]] * 3, [0.9, 0.8, 0.7], [0, 1, 2])
    image = EvaluatedImage(truth=truth, detections=found)
    assert only_labelled(image) is image
    labelled = dataclasses.replace(truth, labelled=np.array([2], np.int32))
    labelled_image = only_labelled(EvaluatedImage(truth=labelled, detections=found))
    assert labelled_image.detections.classes.tolist() == [0, 2]


def test_overlap_against_a_slow_loop():
    rng = np.random.default_rng(0)
    found, true, crowd = random_boxes(rng, 20), random_boxes(rng, 15), rng.random(15) < 0.3
    overlaps = iou_px(found, true, crowd)
    for d, a in enumerate(found.astype(float)):
        for g, b in enumerate(true.astype(float)):
            height, width = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            shared = max(height, 0) * max(width, 0)
            area = (a[2] - a[0]) * (a[3] - a[1])
            union = area if crowd[g] else area + (b[2] - b[0]) * (b[3] - b[1]) - shared
            assert overlaps[d, g] == pytest.approx(shared / union, abs=1e-12)


def test_each_object_is_found_once_and_a_score_has_the_best_balance():
    objects, crowd = [LEFT, RIGHT, [0.5, 0, 1, 0.4]], [False, False, True]
    found = [LEFT, LEFT, LEFT, [0.6, 0.1, 0.8, 0.2], RIGHT]
    scores, classes = [0.9, 0.8, 0.7, 0.6, 0.5], [1, 0, 0, 2, 1]
    match = match_image(evaluated(objects, [0, 1, 2], found, scores, classes, crowd=crowd))
    assert match.found_by.tolist() == [NOT_MATCHED, 0, NOT_MATCHED, IN_CROWD, 1]
    some = [LEFT, RIGHT, LEFT, LEFT], [0.9, 0.6, 0.4, 0.3], [0, 0, 0, 0]
    for found, threshold in ((some, 0.6), (([], [], []), 0.5)):
        images = [evaluated([LEFT, RIGHT], [0, 0], *found)]
        assert best_score_threshold(images, [match_image(images[0])]) == pytest.approx(threshold)
    for found, is_found in ((LEFT, True), (RIGHT, False)):
        assert finds_any([match_image(evaluated([LEFT], [0], [found], [0.9], [0]))]) == is_found
    assert best_score_threshold([], []) == 0.5


def test_agrees_with_pycocotools_on_which_detections_are_hits():
    images, hits = random_images(4), {}
    engine = coco_engine(images, dict.fromkeys(range(5), ""))
    for record in engine.evalImgs:
        if record and record["aRng"] == engine.params.areaRng[0]:
            matches, ignored = record["dtMatches"][0], record["dtIgnore"][0]
            for i, m, crowd in zip(record["dtIds"], matches, ignored, strict=True):
                hits[i] = IN_CROWD if crowd else (1 if m else NOT_MATCHED)
    ours = np.concatenate([match_image(image).found_by for image in images])
    expected = np.array([hits[i + 1] for i in range(len(ours))])
    np.testing.assert_array_equal(np.minimum(ours, 1) * (ours < 0) + (ours >= 0), expected)


@cases(*range(4))
def test_objects_found_are_those_that_the_engine_counts(*, seed):
    images = random_images(seed)
    expected = coco_engine(images, NAMES).eval["recall"]
    of_class = match_images(images, NAMES, BOXES).by_class()
    for area, class_ in itertools.product(range(4), NAMES):
        table, recall = of_class(class_), expected[:, class_, area, :]
        objects = table.counts[:, area].sum()
        if not objects:
            assert (recall == -1).all()
            continue
        found = [unpack(table.hits[table.rank < most, area]).sum(axis=1) for most in (1, 10, 100)]
        np.testing.assert_allclose(np.stack(found, axis=1) / objects, recall, atol=1e-12)


def test_detections_come_by_falling_score_name_their_image_and_take_the_best_object():
    images = random_images(1)
    table = match_images(images, NAMES, BOXES).by_class()(0)
    scores = np.concatenate([i.detections.scores[i.detections.classes == 0] for i in images])
    owners = np.repeat(np.arange(len(images)), [(i.detections.classes == 0).sum() for i in images])
    np.testing.assert_array_equal(table.image, owners[np.argsort(-scores, kind="stable")])
    assert not (table.hits & table.ignored).any()
    # Of two objects the first detection takes the one it overlaps most, which leaves the other to the second.
    objects, found = [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.4]], [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.31]]
    images = [evaluated(objects, [0, 0], found, [0.9, 0.8], [0, 0])]
    hits = unpack(match_images(images, NAMES, BOXES).hits[:, 0])
    assert hits.sum(axis=1).tolist() == [2] * 6 + [1] * 4  # its overlap is 0.775


def with_more_than_a_hundred(image):
    """The image with each detection 101 times."""
    found = image.detections
    return dataclasses.replace(image, detections=found.take(np.repeat(np.arange(len(found.classes)), 101)))


@pytest.mark.parametrize("kind", [BOXES, *SHAPE_KINDS.values()], ids=lambda kind: kind.iou_type)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_parts_in_any_order_and_of_any_size_add_up_to_the_whole(kind, data):
    images = shaped_images(data.draw(st.integers(0, 99)))
    images[0] = with_more_than_a_hundred(images[0])
    whole = match_images(images, NAMES, kind)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(images) - 1), max_size=6)))
    bounds = itertools.pairwise([0, *cuts, len(images)])
    parts = [match_images(images[start:end], NAMES, kind, first=start) for start, end in bounds]
    joined = join_tables(data.draw(st.permutations(parts)))
    with mock.patch.object(coco_matching, "_PAIRS_AT_ONCE", data.draw(st.integers(1, 400))):
        in_chunks = match_images(images, NAMES, kind)
    for field in dataclasses.fields(whole):
        for other in (joined, in_chunks):
            np.testing.assert_array_equal(getattr(other, field.name), getattr(whole, field.name), field.name)


def compare_with_pycocotools(images, kind=BOXES, sigmas=None):
    """Compare all numbers; return the metrics."""
    result, reference = evaluate_coco(images, NAMES, kind), coco_engine(images, NAMES, kind.iou_type, sigmas)
    metrics = result.metrics()
    assert list(metrics) == list(kind.summaries)
    np.testing.assert_allclose(list(metrics.values()), reference.stats, rtol=0, atol=5e-16)
    np.testing.assert_array_equal(result.precision, reference.eval["precision"])
    np.testing.assert_array_equal(result.recall, reference.eval["recall"])
    np.testing.assert_array_equal(result.scores, reference.eval["scores"])
    return metrics


@cases(*range(4))
def test_boxes_masks_and_keypoints_are_equal_to_pycocotools(*, seed):
    for number in (seed, seed + 4):
        assert list(compare_with_pycocotools(random_images(number))) == list(COCO_METRICS)
    for count, sigmas in ((17, None), (5, np.full(5, 0.05))):
        images = shaped_images(seed, count)
        images[0] = with_more_than_a_hundred(images[0])
        for kind in SHAPE_KINDS.values():
            found = compare_with_pycocotools(images, kind, sigmas)
            assert 0.01 < found[kind.map_name] < 0.9, "something is found, and something not"


def test_no_detections_no_objects_more_than_a_hundred_of_a_class_and_two_objects_by_hand():
    with_object = [evaluated([[0, 0, 0.5, 0.5]], [0], [], [], [])]
    assert compare_with_pycocotools(with_object)["DetectionBoxes_Precision/mAP"] == 0.0
    assert set(evaluate_coco([evaluated([], [], [], [], [])], NAMES).metrics().values()) == {-1.0}
    compare_with_pycocotools(random_images(11, count=3, classes=3, max_objects=40, clutter=900))
    # Two objects, one found exactly, one missed; a better-scored false alarm halves the precision.
    objects, found = [[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1]], [[0, 0, 0.5, 0.5], [0, 0.5, 0.4, 0.9]]
    result = evaluate_coco([evaluated(objects, [0, 0], found, [0.8, 0.9], [0, 0])], NAMES)
    # Recall 0 .. 0.50 is reached with precision 1/2: 51 of 101 points.
    assert result.metrics()["DetectionBoxes_Precision/mAP@.50IOU"] == pytest.approx(0.5 * 51 / 101)
    assert result.metrics()["DetectionBoxes_Recall/AR@100"] == 0.5
    assert result.metrics()["DetectionBoxes_Recall/AR@1"] == 0.0


def test_areas_and_classes_are_measured_apart():
    box = [[0, 0, 0.2, 0.1]]  # 20 x 20 px
    for fields, values in (({}, (1.0, -1.0)), ({"area": [99999.0]}, (-1.0, 1.0))):
        metrics = evaluate_coco([evaluated(box, [0], box, [0.9], [0], **fields)], NAMES).metrics()
        found = [metrics[f"DetectionBoxes_Precision/mAP ({size})"] for size in ("small", "large")]
        assert found == pytest.approx(values)
    images = random_images(2)
    result = evaluate_coco(images, NAMES)
    metrics = result.metrics(per_category=True)
    own = [metrics[f"DetectionBoxes_PerformanceByCategory/mAP/{name}"] for name in NAMES.values()]
    assert own[4] == -1.0  # no object of this class
    assert np.mean(own[:4]) == pytest.approx(metrics["DetectionBoxes_Precision/mAP"])
    alone = evaluate_coco(images, {1: "dog"}).metrics()
    everything = result.metrics(all_per_category=True)
    for kind, metric in (("Recall", "AR@10"), ("Precision", "mAP (small)")):
        own = everything[f"DetectionBoxes_{kind} {metric} ByCategory/dog"]
        assert own == alone[f"DetectionBoxes_{kind}/{metric}"]


@cases(("coco_boxes", True, False), ("coco_boxes_no_crowd", False, False), ("coco_boxes_area", True, True))
def test_numbers_of_the_object_detection_api(*, case, crowd, area):
    compare_with_api(case, evaluate_coco(golden_images(crowd, area), VOC_NAMES).metrics())


def compare_with_api(case, metrics):
    expected = json.loads((DATA / "evaluation_metrics.json").read_text())[case]
    known = {name: math.nan if value is None else value for name, value in expected.items()}
    assert metrics == pytest.approx(known, abs=1e-6, nan_ok=True)


def with_truth(image, **fields):
    return dataclasses.replace(image, truth=dataclasses.replace(image.truth, **fields))


def with_flags(images, names):
    """The images with the fixture's flags of these names."""
    verified = ARRAYS["verified_image_labels"]

    def flags(i):
        own = ARRAYS["gt_image"] == i
        found = {name: ARRAYS[f"gt_{name}"][own] for name in names if name != "labelled"}
        if "labelled" in names:
            found["labelled"] = verified[verified[:, 0] == i, 1] - 1
        return found

    return [with_truth(image, **flags(i)) for i, image in enumerate(images)]


def of_set(name, **changes):
    return dataclasses.replace(VOC_SETS[name](MetricOptions(recall_bounds=(0.2, 0.8))), **changes)


@cases(
    ("pascal_voc_0p5", of_set(PASCAL), ["difficult"]),
    ("pascal_voc_0p75", of_set(PASCAL, iou_threshold=0.75), ["difficult"]),
    ("pascal_voc_no_difficult", of_set(PASCAL), []),
    ("weighted_pascal_voc", of_set(WEIGHTED), ["difficult"]),
    ("precision_at_recall", of_set(AT_RECALL), ["difficult"]),
    # A set looks at the flags that are its own: the others change nothing.
    ("pascal_voc_0p5", of_set(PASCAL), ["difficult", "group_of", "labelled"]),
    ("open_images_v2", of_set(OPEN_IMAGES), ["difficult", "group_of", "labelled"]),
    ("open_images_v2_no_group_of", of_set(OPEN_IMAGES), ["difficult"]),
    ("open_images_challenge", of_set(CHALLENGE), ["difficult", "group_of", "labelled"]),
    # What the Object Detection API gives when it is asked for localisation: precision at full recall.
    ("open_images_challenge_corloc", of_set(CHALLENGE, recall_bounds=(1.0, 1.0)), ["group_of", "labelled"]),
)
def test_voc_numbers_of_the_object_detection_api(*, case, options, flags):
    images = with_flags(golden_images(crowd=False, area=False), flags)
    compare_with_api(case, evaluate_voc(images, VOC_NAMES, options))


def test_area_below_the_curve_as_the_object_detection_api_takes_it():
    scores, labels = ARRAYS["precision_recall/scores"], ARRAYS["precision_recall/labels"]
    expected = ARRAYS["precision_recall/average_precision"]
    assert average_precision(scores, labels > 0, 5) == pytest.approx(float(expected), abs=1e-6)
    assert math.isnan(average_precision(np.zeros(0), np.zeros(0, bool), 0))
    assert math.isnan(evaluate_voc([], VOC_NAMES, VocOptions())["PascalBoxes_Precision/mAP@0.5IOU"])
    assert average_precision(np.zeros(0), np.zeros(0, bool), 3) == 0.0


@cases((None, (1 + 2 / 3) / 3), (0, (1 + 1) / 2), (1, (1 + 1 + 1) / 3))
def test_what_lies_in_a_group_is_no_false_alarm_and_finds_the_group_once(*, groups, expected):
    alone, other, group = [0, 0, 0.2, 0.2], [0.3, 0, 0.5, 0.2], [0, 0.5, 1, 1]
    found = [alone, [0.1, 0.6, 0.2, 0.7], other], [0.9, 0.8, 0.7], [0, 0, 0]
    image = evaluated([alone, other, group], [0, 0, 0], *found, height=100, width=100)
    image = with_truth(image, group_of=np.array([False, False, True]))
    options = VocOptions(groups=groups)
    assert evaluate_voc([image], {0: "cat"}, options)[options.map_name] == pytest.approx(expected)


def test_false_alarms_are_second_detections_and_classes_that_were_looked_for():
    box, other, name = [0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1], "PascalBoxes_PerformanceByCategory/AP@0.5IOU/cat"
    twice = evaluated([box, other], [0, 0], [box, box, other], [0.9, 0.8, 0.7], [0, 0, 0])
    empty, seen = evaluated([], [], [box], [0.9], [0]), evaluated([box], [0], [box], [0.8], [0])
    looked_for = with_truth(empty, labelled=np.array([0], np.int32))
    for images, labelled_alone, expected in (
        ([twice], False, 0.5 + 0.5 * 2 / 3),  # precision 1 up to recall 1/2, then 2/3
        ([empty, seen], False, 0.5),
        ([empty, seen], True, 1.0),
        ([looked_for, seen], True, 0.5),
    ):
        found = evaluate_voc(images, VOC_NAMES, VocOptions(only_labelled=labelled_alone))
        assert found[name] == pytest.approx(expected)


@pytest.fixture(scope="module")
def measured():
    return EvaluatedSplit(images=tuple(random_images(5)), class_names=NAMES)


def test_what_is_reported_is_known_and_what_cannot_be_measured_refused(measured, monkeypatch):
    for sets in ((), (COCO_SET,), BOX_SETS, (COCO_SET, *BOX_SETS)):
        for per_category in (True, False):
            options = MetricOptions(sets=sets, per_category=per_category)
            found = compute_metrics(measured, options)
            assert set(found) <= set(known_metrics(options, NAMES)) and list(found)[:12] == list(COCO_METRICS)
            assert (category_metric("dog") in found) == per_category
            assert ("PascalBoxes_Precision/mAP@0.5IOU" in found) == ("pascal_voc_detection_metrics" in sets)
    for metric, fits in (("Own_count", True), ("Ownership", False)):
        own = types.SimpleNamespace(prefix="Own", compute=lambda *_, name=metric: {name: 3})
        monkeypatch.setitem(metric_sets.REGISTERED_SETS, "own", own)
        with contextlib.nullcontext() if fits else pytest.raises(ValueError, match="to begin with 'Own_'"):
            assert compute_metrics(measured, MetricOptions(sets=("own",)))[metric] == 3.0
    options = MetricOptions(groups={"pets": ("cat", "hamster")})
    refused(ConfigError, r"super_categories\[pets\]: .*'hamster'", known_metrics, options, NAMES)


def test_metrics_with_a_threshold_and_means_of_groups_are_reported(measured):
    found = compute_metrics(measured, MetricOptions(), [category_metric("dog")])
    assert found[category_metric("dog")] >= 0 and category_metric("cat") not in found
    found = compute_metrics(measured, MetricOptions(all_per_category=True))
    assert len(found) == 12 + 5 * 13
    options = MetricOptions(groups={"pets": ("cat", "dog", "newt"), "water": ("newt",)}, per_category=True)
    found = compute_metrics(measured, options)
    own = [found[category_metric(name)] for name in ("cat", "dog")]
    assert found["DetectionBoxes_PerformanceBySuperCategory/pets"] == pytest.approx(sum(own) / 2)
    assert found["DetectionBoxes_PerformanceBySuperCategory/water"] == -1.0
    assert set(found) <= set(known_metrics(options, NAMES))
    options = MetricOptions(sets=BOX_SETS, per_category=True)
    found = compute_metrics(measured, options)
    assert found[category_metric("newt")] == -1.0
    assert math.isnan(found["PascalBoxes_PerformanceByCategory/AP@0.5IOU/newt"])


def test_boxes_have_the_same_numbers_beside_shapes_and_names_are_known_before():
    split = EvaluatedSplit(images=tuple(shaped_images(9)), class_names=NAMES)
    options = MetricOptions(sets=tuple(SHAPE_KINDS), per_category=True, groups={"pets": ("cat", "dog")})
    found = compute_metrics(split, options)
    alone = compute_metrics(split, dataclasses.replace(options, sets=()))
    assert alone.items() <= found.items() and set(found) == set(known_metrics(options, NAMES))
    added = [name for name in found if name not in alone]
    assert added[:12] == list(MASK_METRICS)
    wanted = {f"{kind}_PerformanceByCategory/mAP/dog" for kind in ("DetectionMasks", "Keypoints")}
    assert wanted | {"Keypoints_PerformanceBySuperCategory/pets"} < set(added)
    only = MetricOptions(sets=("coco_keypoint_metrics",))
    found = compute_metrics(split, only, ["Keypoints_PerformanceByCategory/mAP/dog"])
    assert list(found)[12:] == [*KEYPOINT_METRICS, "Keypoints_PerformanceByCategory/mAP/dog"]


def test_an_area_is_the_record_s_else_the_mask_s_and_what_has_no_shape_is_refused():
    images = shaped_images(3)
    truth, found = coco_dictionaries(images, NAMES, "segm")
    areas = np.concatenate([image.truth.area for image in images])
    masks = [a["area"] for a, area in zip(truth["annotations"], areas, strict=True) if not area]
    assert all(area == int(area) for area in masks) and len(masks) > 20
    assert all(a["area"] == int(a["area"]) for a in found["annotations"])
    boxes = evaluated([[0, 0, 1, 1]], [0], [[0, 0, 1, 1]], [0.9], [0])
    shaped = next(image for image in shaped_images(0) if len(image.truth.classes))
    no_detection = dataclasses.replace(boxes, detections=boxes.detections.take(np.zeros(1, bool)))
    for kind, field in zip(SHAPE_KINDS.values(), ("load_instance_masks", "num_keypoints"), strict=True):
        message = rf"image x: expected objects with .*{field}"
        refused(DataError, message, evaluate_coco, [no_detection], NAMES, kind)
        without = EvaluatedImage(truth=shaped.truth, detections=boxes.detections)
        refused(ModelError, "expected detections with", evaluate_coco, [without], NAMES, kind)
        assert set(evaluate_coco([evaluated([], [], [], [], [])], NAMES, kind).metrics().values()) == {-1.0}
    other = EvaluatedImage(truth=shaped.truth, detections=shaped_images(0, 4)[1].detections)
    refused(ModelError, "found 4 and 17; set num_keypoints", check_keypoints, [other])
