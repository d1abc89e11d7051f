import contextlib
import math
import types

import pytest

from detection_core.artifacts.coco_names import COCO_METRICS, category_metric
from detection_core.errors import ConfigError
from detection_core.evaluation import metric_sets
from detection_core.evaluation.coco_metrics import evaluate_coco
from detection_core.evaluation.metric_sets import VOC_SETS, MetricOptions, compute_metrics, known_metrics
from tests.support.cases import refused
from tests.support.coco_goldens import NAMES
from tests.support.evaluated_images import random_images


@pytest.fixture(scope="module")
def measured():
    images = random_images(5)
    return images, evaluate_coco(images, NAMES)


def test_what_is_reported_is_known_and_what_cannot_be_measured_refused(measured, monkeypatch):
    for sets in ((), (metric_sets.COCO_SET,), tuple(VOC_SETS), (metric_sets.COCO_SET, *VOC_SETS)):
        for per_category in (True, False):
            options = MetricOptions(sets=sets, per_category=per_category)
            found = compute_metrics(*measured, NAMES, options)
            assert set(found) <= set(known_metrics(options, NAMES))
            assert list(found)[:12] == list(COCO_METRICS)
            assert (category_metric("dog") in found) == per_category
            assert ("PascalBoxes_Precision/mAP@0.5IOU" in found) == ("pascal_voc_detection_metrics" in sets)
    with pytest.raises(ConfigError, match=r"metrics_set: expected one of .*'coco_mask_metrics'"):
        MetricOptions(sets=("coco_mask_metrics",))
    for metric, fits in (("Own_count", True), ("Ownership", False)):
        own = types.SimpleNamespace(prefix="Own", compute=lambda *_, name=metric: {name: 3})
        monkeypatch.setitem(metric_sets.REGISTERED_SETS, "own", own)
        with contextlib.nullcontext() if fits else pytest.raises(ValueError, match="to begin with 'Own_'"):
            assert compute_metrics(*measured, NAMES, MetricOptions(sets=("own",)))[metric] == 3.0
    options = MetricOptions(groups={"pets": ("cat", "hamster")})
    refused(ConfigError, r"super_categories\[pets\]: .*'hamster'", known_metrics, options, NAMES)


def test_metrics_with_a_threshold_and_means_of_groups_are_reported(measured):
    found = compute_metrics(*measured, NAMES, MetricOptions(), [category_metric("dog")])
    assert found[category_metric("dog")] >= 0
    assert category_metric("cat") not in found
    found = compute_metrics(*measured, NAMES, MetricOptions(all_per_category=True))
    assert len(found) == 12 + 5 * 13
    options = MetricOptions(groups={"pets": ("cat", "dog", "newt"), "water": ("newt",)}, per_category=True)
    found = compute_metrics(*measured, NAMES, options)
    own = [found[category_metric(name)] for name in ("cat", "dog")]
    assert found["DetectionBoxes_PerformanceBySuperCategory/pets"] == pytest.approx(sum(own) / 2)
    assert found["DetectionBoxes_PerformanceBySuperCategory/water"] == -1.0
    assert set(found) <= set(known_metrics(options, NAMES))
    options = MetricOptions(sets=tuple(VOC_SETS), per_category=True)
    found = compute_metrics(*measured, NAMES, options)
    assert found[category_metric("newt")] == -1.0
    assert math.isnan(found["PascalBoxes_PerformanceByCategory/AP@0.5IOU/newt"])
