import itertools

from detection_core.artifacts.coco_names import COCO_METRICS
from detection_core.config import metric_names
from detection_core.config.metric_names import check_metric_names
from detection_core.evaluation.metric_sets import MetricOptions, known_metrics
from detection_core.protos.eval_pb2 import EvalConfig
from tests.support.cases import cases, config_refused, refused


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


def _register(name, prefix):
    metric_names.register_metric_set(name, prefix=prefix, compute=lambda images, class_names: {})


def test_a_set_from_outside_is_known_under_one_name_and_one_prefix():
    _register("toy_metrics", "Toy")
    try:
        message = EvalConfig(metrics_set=["toy_metrics"])
        check_metric_names(["Toy_Found"], message, "thresholds")
        config_refused("add toy_metrics to", check_metric_names, ["Toy_Found"], EvalConfig(), "w")
        for taken in ("toy_metrics", "coco_detection_metrics", "pascal_voc_detection_metrics"):
            refused(ValueError, f"'{taken}', which is taken", _register, taken, "Other")
        for taken in ("Toy", "PascalBoxes", "DetectionBoxes"):
            refused(ValueError, f"'{taken}', which is taken", _register, "other", taken)
    finally:
        metric_names.unregister_metric_set("toy_metrics")
    config_refused("expected a metric of the eval", check_metric_names, ["Toy_Found"], message, "w")
