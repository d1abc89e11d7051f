"""TFX executors and components around the Jobs and their `run`, so that components do not import TFX.

TFX imports an executor by module and name, and stores a component's in its metadata: do not rename them.
"""

import functools
import json
import os
import types
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tfx.dsl.components.base import base_component, base_executor, executor_spec
from tfx.types import channel

from component_specs import JOBS, tfx_spec
from component_specs.annotations import job_fields
from component_specs.kfp_outputs import CODE_VERSIONS
from component_specs.registration import run_module
from components.runtime.bind import bind_artifacts
from components.runtime.in_process import run_job
from detection_core.artifacts.blessing import read_verdict
from detection_core.training.memory import PEAK_MEMORY, peak_host_memory

RESULTS = "results"
"""Custom property of a step's first output: JSON of the results in `component_specs.kfp_outputs`."""


class JobExecutor(base_executor.BaseExecutor):
    """Runs a component's `run(job)` inside TFX; each component has a subclass."""

    COMPONENT: ClassVar[str]

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
        # TFX cannot find the class of an external component by module and name, so its node names it.
        component = exec_properties.get(tfx_spec.COMPONENT) or self.COMPONENT
        job: Any = bind_artifacts(JOBS[component], input_dict, output_dict, exec_properties)
        results, outputs = run_job(component, job), job_fields(JOBS[component]).outputs
        if results and outputs:
            # With the first output, so that cached steps have them for other steps, too.
            output_dict[next(iter(outputs))][0].set_string_custom_property(RESULTS, json.dumps(results))
        for artifacts in output_dict.values():
            artifacts[0].set_int_custom_property(PEAK_MEMORY, peak_host_memory())
            describe = _DESCRIBE.get(artifacts[0].type_name)
            if describe:
                describe(artifacts[0], input_dict)


class RegisteredExecutor(JobExecutor):
    """Runs any external component."""

    COMPONENT = ""


def _describe_examples(artifact: Any, inputs: Mapping[str, list[Any]]) -> None:
    prefix = "Split-"
    splits = sorted(n.removeprefix(prefix) for n in os.listdir(artifact.uri) if n.startswith(prefix))
    artifact.split_names = json.dumps(splits)


def _describe_blessing(artifact: Any, inputs: Mapping[str, list[Any]]) -> None:
    # Without the model's id, LatestBlessedModelStrategy silently finds nothing.
    artifact.set_int_custom_property("blessed", int(read_verdict(artifact.uri).blessed))
    if inputs.get("model"):
        artifact.set_string_custom_property("current_model", inputs["model"][0].uri)
        artifact.set_int_custom_property("current_model_id", inputs["model"][0].id)


_DESCRIBE: dict[str, Callable[[Any, Mapping[str, list[Any]]], None]] = {
    "Examples": _describe_examples,
    "ExampleStatistics": _describe_examples,
    "ExampleAnomalies": _describe_examples,
    "ModelBlessing": _describe_blessing,
}


class JobComponent(base_component.BaseComponent):
    """A TFX component with the inputs and parameters of a Job; each subclass names it and its executor."""

    COMPONENT: ClassVar[str]

    def __init__(self, step_id: str, **values: Any) -> None:
        """Create the node.

        Args:
            step_id: id of the node.
            **values: input field to channel, parameter field to value.
        """
        parameters = job_fields(JOBS[self.COMPONENT]).parameters
        carried = {n: parameters[n].codec.encode(v) if n in parameters else v for n, v in values.items()}
        outputs = {name: channel.Channel(type=key.type) for name, key in self.SPEC_CLASS.OUTPUTS.items()}
        super().__init__(spec=self.SPEC_CLASS(**carried, **outputs))
        self.with_id(step_id)


COMPONENTS: dict[str, type[JobComponent]] = {}
"""Component name, as in `component_specs.JOBS`, to its TFX class."""


def _tfx_classes(component: str) -> dict[str, Any]:
    """Return the component's TFX class and executor by name."""
    name = JOBS[component].__name__.removesuffix("Job")

    def subclass(name: str, base: Any, **attributes: Any) -> Any:
        attributes["__module__"] = __name__
        return types.new_class(name, (base,), exec_body=lambda body: body.update(attributes))

    executor = subclass(f"{name}Executor", JobExecutor, COMPONENT=component)
    COMPONENTS[component] = subclass(
        name,
        JobComponent,
        COMPONENT=component,
        SPEC_CLASS=tfx_spec.job_spec(JOBS[component]),
        EXECUTOR_SPEC=executor_spec.ExecutorClassSpec(executor),
    )
    return {name: COMPONENTS[component], executor.__name__: executor}


for _component in ("run_checker", *CODE_VERSIONS):  # without external components
    globals().update(_tfx_classes(_component))


def tfx_component(component: str) -> Callable[..., JobComponent]:
    """Return a factory of nodes of a component, from their id, inputs and parameters."""
    if component in COMPONENTS:
        return COMPONENTS[component]
    # ML Metadata identifies a component's type, with its fields, by module and name.
    attributes = {
        "__module__": run_module(component),
        "COMPONENT": component,
        "SPEC_CLASS": tfx_spec.registered_spec(component),
        "EXECUTOR_SPEC": executor_spec.ExecutorClassSpec(RegisteredExecutor),
    }
    made = types.new_class(component, (JobComponent,), exec_body=lambda body: body.update(attributes))
    return functools.partial(made, **{tfx_spec.COMPONENT: component})
