"""TFX executor and component classes, made from (Job, run) so that no component imports TFX."""

from __future__ import annotations

import functools
import importlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from tfx.dsl.components.base import base_component, base_executor, executor_spec
from tfx.types import channel

from component_specs import JOBS
from component_specs.tfx_spec import spec_class
from components.runtime.bind import bind_artifacts
from detection_core.artifacts.blessing import is_blessed


class JobExecutor(base_executor.BaseExecutor):
    """Runs a component's `run(job)` inside TFX. Subclasses, one a component, are made below."""

    COMPONENT = ""

    def Do(
        self,
        input_dict: dict[str, list[Any]],
        output_dict: dict[str, list[Any]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Bind, run, and describe the outputs as stock TFX components expect it.

        Args:
            input_dict: the Job's input fields to artifacts.
            output_dict: the Job's output fields to artifacts.
            exec_properties: the Job's parameters.

        Raises:
            DetectionError: whatever the component raises.
        """
        job: Any = bind_artifacts(JOBS[self.COMPONENT], input_dict, output_dict, exec_properties)
        importlib.import_module(f"components.{self.COMPONENT}.run").run(job)
        for artifacts in output_dict.values():
            describe = _DESCRIBE.get(artifacts[0].type_name)
            if describe:
                describe(artifacts[0], input_dict)


def _describe_examples(artifact: Any, inputs: Mapping[str, list[Any]]) -> None:
    prefix = "Split-"
    splits = sorted(n.removeprefix(prefix) for n in os.listdir(artifact.uri) if n.startswith(prefix))
    artifact.split_names = json.dumps(splits)


def _describe_blessing(artifact: Any, inputs: Mapping[str, list[Any]]) -> None:
    # LatestBlessedModelStrategy finds nothing, silently, without the model's id.
    artifact.set_int_custom_property("blessed", int(is_blessed(artifact.uri)))
    if inputs.get("model"):
        artifact.set_string_custom_property("current_model", inputs["model"][0].uri)
        artifact.set_int_custom_property("current_model_id", inputs["model"][0].id)


_DESCRIBE: dict[str, Callable[[Any, Mapping[str, list[Any]]], None]] = {
    "Examples": _describe_examples,
    "ModelBlessing": _describe_blessing,
}


def _executor_class(component: str) -> type[JobExecutor]:
    name = JOBS[component].__name__.removesuffix("Job") + "Executor"
    return type(name, (JobExecutor,), {"COMPONENT": component, "__module__": __name__})


# TFX imports an executor by module and name, so the classes are attributes of this module.
_EXECUTORS = {component: _executor_class(component) for component in JOBS}
globals().update({cls.__name__: cls for cls in _EXECUTORS.values()})


@functools.cache
def component_class(component: str) -> Any:
    """Return the TFX component class of one of `JOBS`; it is made from the step id and the Job fields."""
    spec = spec_class(JOBS[component])

    def __init__(self: Any, step_id: str, **values: Any) -> None:
        artifacts = {name: channel.Channel(type=parameter.type) for name, parameter in spec.OUTPUTS.items()}
        base_component.BaseComponent.__init__(self, spec=spec(**values, **artifacts))
        self.with_id(step_id)

    return type(
        spec.__name__.removesuffix("Spec"),
        (base_component.BaseComponent,),
        {
            "__module__": __name__,
            "__init__": __init__,
            "SPEC_CLASS": spec,
            "EXECUTOR_SPEC": executor_spec.ExecutorClassSpec(_EXECUTORS[component]),
        },
    )
