"""What a step gives on Kubeflow Pipelines beside its Job's artifacts: output parameters, and views.

Neither is a field of the Job: output parameters are taken from what `run` returns, and views are drawn from
the artifacts when `run` is done, so that a component and its TFX spec know nothing of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from component_specs import JOBS


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """Something that the user interface shows for a run.

    Attributes:
        kfp: title of the Kubeflow Pipelines type; the user interface draws each in its own way.
        description: what it shows.
    """

    kfp: str
    description: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class KfpOutputs:
    """The additional outputs of a component.

    Attributes:
        results: name in what `run` returns, which is the output parameter's name too, to str, int, float or
            bool.
        views: output name to view.
    """

    results: Mapping[str, type] = dataclasses.field(default_factory=dict)
    views: Mapping[str, View] = dataclasses.field(default_factory=dict)


METRICS = "system.Metrics"
CURVES = "system.ClassificationMetrics"
HTML = "system.HTML"
MARKDOWN = "system.Markdown"

CODE_VERSIONS = {component: f"code_version_{component}" for component in JOBS if component != "run_checker"}
"""Component to the result of RunChecker that has the fingerprint of its code."""

KFP_OUTPUTS: dict[str, KfpOutputs] = {
    "run_checker": KfpOutputs(
        results={
            "data_fingerprint": str,
            "data_spans": str,
            "code_version": str,
            **dict.fromkeys(CODE_VERSIONS.values(), str),
            "starting_weights": str,
            "run_key": str,
            "baseline_version": str,
            "push_token": str,
            "resolved_data_path": str,
            "resolved_thresholds": str,
            "resolved_push_destination": str,
            "resolved_work_dir": str,
        }
    ),
    "config_gen": KfpOutputs(),
    "example_gen": KfpOutputs(views={"card": View(kfp=HTML, description="the dataset card")}),
    "baseline_resolver": KfpOutputs(),
    "trainer": KfpOutputs(views={"metrics": View(kfp=METRICS, description="steps and size")}),
    "evaluator": KfpOutputs(
        results={"blessed": bool},
        views={
            "metrics": View(kfp=METRICS, description="what was measured, without what has no value"),
            "curves": View(
                kfp=CURVES,
                description="confusion matrix, and recall over 1 - precision as the mean of all classes",
            ),
            "report": View(kfp=HTML, description="verdict, metrics, curves of each class and pictures"),
        },
    ),
    "quantization_rewriter": KfpOutputs(
        views={"metrics": View(kfp=METRICS, description="steps, loss and how much is quantized")}
    ),
    "tflite_exporter": KfpOutputs(
        results={"blessed": bool},
        views={"metrics": View(kfp=METRICS, description="accuracy, size and latency of each file")},
    ),
    "pusher": KfpOutputs(
        results={"pushed": bool},
        views={"decision": View(kfp=MARKDOWN, description="the version published, or why there is none")},
    ),
}
