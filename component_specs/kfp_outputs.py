"""Output parameters and views of a step on Kubeflow Pipelines, and its interface as JSON text.

Output parameters and views are not fields of the Job, so components and TFX specs do not know them. Output
parameters come from the result of `run`; views are drawn from the artifacts afterwards.

The component's YAML holds the interface. The container compares it with its own interface, so a mismatch of
YAML and image is detected before the step begins.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.codecs import Codec, Plain, Scalar
from component_specs.data_validator import EARLIER_SPANS
from component_specs.evaluator import THRESHOLDS
from component_specs.example_gen import SPANS


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """A visualization in the user interface.

    Attributes:
        kfp: title of the Kubeflow Pipelines type, which decides how it is drawn.
    """

    kfp: str
    description: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class KfpOutputs:
    """The additional outputs of a component.

    Attributes:
        results: name of an output parameter, also its key in the result of `run`, to its codec.
        views: output name to view.
    """

    results: Mapping[str, Codec] = dataclasses.field(default_factory=dict)
    views: Mapping[str, View] = dataclasses.field(default_factory=dict)


METRICS = "system.Metrics"
CURVES = "system.ClassificationMetrics"
HTML = "system.HTML"
MARKDOWN = "system.Markdown"

CODE_VERSIONS = {component: f"code_version_{component}" for component in JOBS if component != "run_checker"}
"""Component to the RunChecker result that holds the fingerprint of its code."""

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
    """Return the encoded output parameters of a step, from the result of its `run`."""
    return {name: codec.encode(report[name]) for name, codec in KFP_OUTPUTS[component].results.items()}


OPTIONAL = "?"


def interface(component: str) -> dict[str, Any]:
    """Return the component's name, and the types of its inputs and outputs; `?` marks optional ones."""
    fields, given = job_fields(JOBS[component]), KFP_OUTPUTS[component]
    return {
        "component": component,
        "inputs": {n: i.type.name + OPTIONAL * i.optional for n, i in fields.inputs.items()},
        "parameters": {
            n: p.codec.carried_as.__name__ + OPTIONAL * (not p.required) for n, p in fields.parameters.items()
        },
        "outputs": {n: o.type.name for n, o in fields.outputs.items()},
        "results": {n: codec.carried_as.__name__ + OPTIONAL for n, codec in given.results.items()},
        "views": {n: view.kfp + OPTIONAL for n, view in given.views.items()},
    }


def format_interface(component: str) -> str:
    """Return the interface as compact JSON without `{{`, which Kubeflow Pipelines would replace."""
    return json.dumps(interface(component), separators=(",", ":"))


def find_mismatch(theirs: dict[str, Any], component: str) -> str:
    """Return how another interface of the component differs from this one; "" if they are compatible.

    An optional input or output may exist on one side only. `theirs` is from the caller's YAML.
    """
    ours = interface(component)
    if theirs.get("component") != component:
        return f"it is for the component {theirs.get('component')!r}"
    for kind in ("inputs", "parameters", "outputs", "results", "views"):
        here, there = ours[kind], theirs.get(kind, {})
        for name in sorted({*here, *there}):
            known = {side.get(name, "").rstrip(OPTIONAL) for side in (here, there)} - {""}
            if len(known) > 1:
                return f"{kind[:-1]} {name} is {there[name]} there and {here[name]} here"
            if name not in here or (name not in there and not here[name].endswith(OPTIONAL)):
                return f"{kind[:-1]} {name} is known {'there' if name in there else 'here'} only"
    return ""
