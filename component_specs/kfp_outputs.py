"""What a step gives on Kubeflow Pipelines beside its Job's artifacts: output parameters, and views.

Neither is a field of the Job: output parameters are taken from what `run` returns, and views are drawn from
the artifacts when `run` is done, so that a component and its TFX spec know nothing of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from component_specs import JOBS
from component_specs.codecs import Codec, Plain, Scalar
from component_specs.data_validator import EARLIER_SPANS
from component_specs.evaluator import THRESHOLDS
from component_specs.example_gen import SPANS


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
        results: name in what `run` returns, which is the output parameter's name too, to how it travels.
        views: output name to view.
    """

    results: Mapping[str, Codec] = dataclasses.field(default_factory=dict)
    views: Mapping[str, View] = dataclasses.field(default_factory=dict)


METRICS = "system.Metrics"
CURVES = "system.ClassificationMetrics"
HTML = "system.HTML"
MARKDOWN = "system.Markdown"

CODE_VERSIONS = {component: f"code_version_{component}" for component in JOBS if component != "run_checker"}
"""Component to the result of RunChecker that has the fingerprint of its code."""

_TEXT, _YES_OR_NO = Plain(str), Plain(bool)

KFP_OUTPUTS: dict[str, KfpOutputs] = {
    "run_checker": KfpOutputs(
        results={
            "data_fingerprint": _TEXT,
            "data_spans": SPANS,
            "span_folder": _TEXT,
            "earlier_spans": EARLIER_SPANS,
            "code_version": _TEXT,
            **dict.fromkeys(CODE_VERSIONS.values(), _TEXT),
            "starting_weights": _TEXT,
            "run_key": _TEXT,
            "baseline_version": _TEXT,
            "push_token": _TEXT,
            "resolved_data_path": _TEXT,
            "resolved_thresholds": THRESHOLDS,
            "resolved_push_destination": _TEXT,
            "resolved_work_dir": _TEXT,
        }
    ),
    "config_gen": KfpOutputs(),
    "example_gen": KfpOutputs(views={"card": View(kfp=HTML, description="the dataset card")}),
    "baseline_resolver": KfpOutputs(),
    "data_validator": KfpOutputs(
        results={"stop_reasons": _TEXT},
        views={"report": View(kfp=HTML, description="what is wrong with the examples, with pictures")},
    ),
    "trainer": KfpOutputs(views={"metrics": View(kfp=METRICS, description="steps and size")}),
    "evaluator": KfpOutputs(
        results={"blessed": _YES_OR_NO},
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
        results={"blessed": _YES_OR_NO},
        views={"metrics": View(kfp=METRICS, description="accuracy, size and latency of each file")},
    ),
    "pusher": KfpOutputs(
        results={"pushed": _YES_OR_NO},
        views={"decision": View(kfp=MARKDOWN, description="the version published, or why there is none")},
    ),
}


def encode_results(component: str, report: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return the output parameters of a step as they travel, given what its `run` returned."""
    return {name: codec.encode(report[name]) for name, codec in KFP_OUTPUTS[component].results.items()}
