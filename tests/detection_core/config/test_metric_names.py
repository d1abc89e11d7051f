import itertools

import pytest

from detection_core.artifacts.coco_names import COCO_METRICS
from detection_core.config import metric_names
from detection_core.config.metric_names import check_metric_names
from detection_core.evaluation.metric_sets import MetricOptions, known_metrics
from detection_core.protos.eval_pb2 import EvalConfig
from tests.support.cases import cases, config_refused


@cases(*itertools.product(metric_names.SET_PREFIXES, [(0.0, 1.0), (0.2, 0.8)]))
def test_every_metric_of_an_evaluation_is_accepted(*, name, bounds):
    options = MetricOptions(sets=(name,), groups={"pets": ("cat",)}, recall_bounds=bounds)
    known = known_metrics(options, {0: "cat"})
    check_metric_names(known, EvalConfig(metrics_set=[name]), "w")
    assert len(known) > len(COCO_METRICS)


@cases(
    ("DetectionBoxes_Precision/mAP@.5IOU", "or 'DetectionBoxes_Precision/mAP@.50IOU'"),
    ("accuracy", "one is 'DetectionBoxes_Precision/mAP'"),
    ("PascalBoxes_Precision/mAP@0.5IOU", "add pascal_voc_detection_metrics to eval_config.metrics_set"),
    ("x" * 10_000, "one is"),
)
def test_any_other_is_refused_with_the_nearest(*, name, hint):
    caught = config_refused(r"^w: expected a metric", check_metric_names, [name], EvalConfig(), "w")
    assert hint in str(caught) and len(str(caught)) < 400


def test_a_set_from_outside_is_known_under_one_name_and_one_prefix():
    def compute(images, class_names):
        return {"Toy_Found": 1.0}

    metric_names.register_metric_set("toy_metrics", prefix="Toy", compute=compute)
    try:
        message = EvalConfig(metrics_set=["toy_metrics"])
        check_metric_names(["Toy_Found"], message, "thresholds")
        config_refused("add toy_metrics to", check_metric_names, ["Toy_Found"], EvalConfig(), "w")
        taken = [("toy_metrics", "Other"), ("coco_detection_metrics", "Other")]
        taken += [("pascal_voc_detection_metrics", "Other")]
        taken += [("other", prefix) for prefix in ("Toy", "PascalBoxes", "DetectionBoxes")]
        for name, prefix in taken:
            with pytest.raises(ValueError, match=f"'{prefix if name == 'other' else name}', which is taken"):
                metric_names.register_metric_set(name, prefix=prefix, compute=compute)
    finally:
        metric_names.unregister_metric_set("toy_metrics")
    config_refused("expected a metric of the eval", check_metric_names, ["Toy_Found"], message, "w")
