"""Lines that Katib's metrics collector reads."""

import datetime
import io
import re

from detection_core.loggers.base import EVAL, TRAIN
from detection_core.loggers.metric_lines import MetricLines, metric_name
from tests.support.cases import cases

# The filters that Katib's collector uses where an Experiment gives none, an older one and one with exponents:
# DefaultFilter of kubeflow/katib, pkg/metricscollector/v1beta1/common/const.go.
KATIB = (
    re.compile(r"([\w|-]+)\s*=\s*((-?\d+)(\.\d+)?)"),
    re.compile(r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)"),
)


@cases(*KATIB)
def test_katib_reads_every_metric_of_a_validation_with_its_time(*, katib):
    stream = io.StringIO()
    lines = MetricLines(stream)
    lines.log_scalars({"Loss/total_loss": 1.0}, 10, TRAIN)
    metrics = {"score": 0.71234567, "DetectionBoxes_Precision/mAP@.50IOU": 1e-7, "gain": -0.5}
    lines.log_scalars(metrics, 10, EVAL)
    found = {}
    for line in stream.getvalue().splitlines():
        # Its file parser takes what is in front of the first blank as the time, in Go's RFC3339Nano.
        time, _, rest = line.partition(" ")
        assert datetime.datetime.fromisoformat(time).tzinfo is not None and time.endswith("Z")
        (match,) = katib.finditer(rest)
        found[match[1]] = float(match[2])
    assert found == {"score": 0.71234567, "DetectionBoxes_Precision_mAP_50IOU": 1e-7, "gain": -0.5}
    assert metric_name("DetectionBoxes_Recall/AR@100 (large)") == "DetectionBoxes_Recall_AR_100_large"
    assert metric_name("f1-score") == "f1-score"
