"""Generate Kubeflow Pipelines components and `yaml/` from Job dataclasses.

`python -m component_specs.kfp_yaml` writes the files; `--check` only compares them. Only this module imports
KFP.
"""

import argparse
import dataclasses
import functools
import inspect
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from kfp import compiler, dsl

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.kfp_outputs import KFP_OUTPUTS, format_interface
from component_specs.registration import entry_module

FOLDER = Path(__file__).parent / "yaml"
DESCRIPTIONS = Path(__file__).parent / "descriptions" / "jobs.yaml"
IMAGE = "detflow:latest"
WORKSPACE = "kfp_workspace"
"""Parameter of no Job: a value below the path of the run's volume makes the driver mount it."""

_TYPES = dsl.Artifact, dsl.Dataset, dsl.Model, dsl.Metrics, dsl.ClassificationMetrics, dsl.HTML, dsl.Markdown
_ARTIFACTS: dict[str, Any] = {kind.schema_title: kind for kind in _TYPES}


def kfp_component(
    component: str, image: str = IMAGE, name: str = "", *, described: bool = True, mounts: bool = False
) -> Any:
    """Return the KFP component.

    Its name is unique within a pipeline; "": the component's. Descriptions of inputs can be left out, because
    Argo's Workflow repeats every component about ten times. With `mounts` it takes `WORKSPACE`.
    """

    def container(*_: Any) -> Any:
        return dsl.ContainerSpec(
            image=image,
            command=["python", "-m", entry_module(component)],
            args=["--executor_input", "{{$}}", "--interface", format_interface(component)],
        )

    volume = inspect.Parameter(WORKSPACE, inspect.Parameter.KEYWORD_ONLY, annotation=str, default="")
    parameters = _signature(component) + [volume] * mounts
    container.__name__ = name or component
    container.__doc__ = _documentation(component) if described else None
    container.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    container.__annotations__ = {p.name: p.annotation for p in parameters}
    return dsl.container_component(container)


def _signature(component: str) -> list[inspect.Parameter]:
    fields, given = job_fields(JOBS[component]), KFP_OUTPUTS[component]
    required = inspect.Parameter.empty

    def parameter(name: str, annotation: Any, default: Any = required) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    return [
        *(
            parameter(name, dsl.Input[_ARTIFACTS[i.type.kfp]], None if i.optional else required)
            for name, i in fields.inputs.items()
        ),
        *(
            parameter(name, p.codec.carried_as, required if p.required else p.codec.encode(p.default))
            for name, p in fields.parameters.items()
        ),
        *(parameter(name, dsl.Output[_ARTIFACTS[o.type.kfp]]) for name, o in fields.outputs.items()),
        *(parameter(name, dsl.Output[_ARTIFACTS[view.kfp]]) for name, view in given.views.items()),
        *(parameter(name, dsl.OutputPath(codec.carried_as)) for name, codec in given.results.items()),
    ]


def _documentation(component: str) -> str:
    """Return the Job's docstring as KFP reads a component's: its fields are the arguments."""
    text = inspect.cleandoc(JOBS[component].__doc__ or "").replace("Attributes:", "Args:")
    # KFP keeps line breaks inside a description.
    text = re.sub(r"\n {8}(?=\S)", " ", text)
    fields = describe_fields(component)
    arguments = [
        *fields.items(),
        *((n, f"{v.description}.") for n, v in KFP_OUTPUTS[component].views.items()),
    ]
    text += "\n\nArgs:" * bool(fields) + "".join(f"\n    {name}: {about}" for name, about in arguments)
    for name, parameter in job_fields(JOBS[component]).parameters.items():
        if parameter.codec.form:
            text = text.replace(f"\n    {name}: ", f"\n    {name}: {parameter.codec.form}; ")
    return text


def describe_fields(component: str) -> dict[str, str]:
    """Return the descriptions of a Job's fields; none for an external Job, whose docstring has them."""
    if component not in _descriptions():
        return {}
    known = _descriptions()["common"] | _descriptions()[component]
    return {field.name: known[field.name] for field in dataclasses.fields(JOBS[component])}


@functools.cache
def _descriptions() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = yaml.safe_load(DESCRIPTIONS.read_text(encoding="utf-8"))
    return table


def render(component: str) -> str:
    """Return the component's YAML."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "component.yaml"
        compiler.Compiler().compile(kfp_component(component), str(path))
        return path.read_text(encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Write or compare the files in `yaml/`; return 1 if one is out of date."""
    parser = argparse.ArgumentParser(description="Write the components' YAML files.")
    parser.add_argument("--check", action="store_true", help="only tell whether they are up to date")
    check = parser.parse_args(argv).check
    rendered = {FOLDER / f"{component}.yaml": render(component) for component in JOBS}
    existing = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yaml")}
    stale = sorted(p.name for p in {*rendered, *existing} if rendered.get(p) != existing.get(p))
    if check:
        if stale:
            sys.stderr.write(f"out of date: {', '.join(stale)}; run `make specs`\n")
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for path in existing.keys() - rendered.keys():
        path.unlink()
    for path, text in rendered.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
