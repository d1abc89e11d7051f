"""What a Job's annotations say: which fields are input or output artifacts, and of which type."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArtifactType:
    """A kind of artifact and its names on the two backends.

    Attributes:
        name: our name, also the TFX type name.
        standard: True where TFX has this type itself (`tfx.types.standard_artifacts`).
        kfp: title of the Kubeflow Pipelines type.
    """

    name: str
    standard: bool
    kfp: str


PIPELINE_CONFIG = ArtifactType(name="PipelineConfig", standard=False, kfp="system.Artifact")
EXAMPLES = ArtifactType(name="Examples", standard=True, kfp="system.Dataset")
MODEL = ArtifactType(name="Model", standard=True, kfp="system.Model")
MODEL_RUN = ArtifactType(name="ModelRun", standard=True, kfp="system.Artifact")
EVALUATION = ArtifactType(name="ModelEvaluation", standard=True, kfp="system.Artifact")
BLESSING = ArtifactType(name="ModelBlessing", standard=True, kfp="system.Artifact")
PUSHED_MODEL = ArtifactType(name="PushedModel", standard=True, kfp="system.Model")
TFLITE_MODEL = ArtifactType(name="TFLiteModel", standard=False, kfp="system.Model")
QUANTIZATION = ArtifactType(name="QuantizationReport", standard=False, kfp="system.Artifact")

ARTIFACT_TYPES = {
    t.name: t
    for t in (
        PIPELINE_CONFIG,
        EXAMPLES,
        MODEL,
        MODEL_RUN,
        EVALUATION,
        BLESSING,
        PUSHED_MODEL,
        TFLITE_MODEL,
        QUANTIZATION,
    )
}


@dataclasses.dataclass(frozen=True)
class Input:
    """Marks a field as an input artifact: the path of its folder, "" where an optional one is absent."""

    type: ArtifactType
    optional: bool = False


@dataclasses.dataclass(frozen=True)
class Output:
    """Marks a field as an output artifact: the local path of the folder to fill."""

    type: ArtifactType


@dataclasses.dataclass(frozen=True)
class JobFields:
    """The fields of a Job by role.

    Attributes:
        inputs: field name to `Input`.
        outputs: field name to `Output`.
        parameters: field name to its Python type, one of str, int, float and bool.
        defaults: field name to default, for the parameters that have one.
    """

    inputs: dict[str, Input]
    outputs: dict[str, Output]
    parameters: dict[str, type]
    defaults: dict[str, Any]


def job_fields(job_type: type) -> JobFields:
    """Read the roles of a Job class's fields from its annotations.

    Args:
        job_type: a frozen dataclass whose artifact fields are `Annotated[str, Input(...)]` or `Output(...)`.

    Raises:
        TypeError: for a parameter that is not a str, int, float or bool.
    """
    hints = typing.get_type_hints(job_type, include_extras=True)
    found = JobFields(inputs={}, outputs={}, parameters={}, defaults={})
    for field in dataclasses.fields(job_type):
        hint = hints[field.name]
        role = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Input | Output)), None)
        if isinstance(role, Input):
            found.inputs[field.name] = role
        elif isinstance(role, Output):
            found.outputs[field.name] = role
        elif hint in (str, int, float, bool):
            found.parameters[field.name] = hint
            if field.default is not dataclasses.MISSING:
                found.defaults[field.name] = field.default
        else:
            raise TypeError(
                f"{job_type.__name__}.{field.name}: parameters are str, int, float or bool, not {hint}"
            )
    return found
