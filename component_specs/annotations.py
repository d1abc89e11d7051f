"""Annotations of a Job's fields: input artifacts, output artifacts and parameters."""

import dataclasses
import typing
from typing import Any, TypeVar, get_args

from component_specs.codecs import Codec, Parameter, Plain, Scalar

Options = TypeVar("Options")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArtifactType:
    """A type of artifact, and its names on the two backends.

    Attributes:
        name: our name, also the name of the TFX type.
        standard: whether it is one of TFX's `tfx.types.standard_artifacts`.
        kfp: title of the Kubeflow Pipelines type.
    """

    name: str
    standard: bool
    kfp: str


PIPELINE_CONFIG = ArtifactType(name="PipelineConfig", standard=False, kfp="system.Artifact")
EXAMPLES = ArtifactType(name="Examples", standard=True, kfp="system.Dataset")
STATISTICS = ArtifactType(name="ExampleStatistics", standard=True, kfp="system.Artifact")
SCHEMA = ArtifactType(name="Schema", standard=True, kfp="system.Artifact")
ANOMALIES = ArtifactType(name="ExampleAnomalies", standard=True, kfp="system.Artifact")
DATA_BLESSING = ArtifactType(name="DataBlessing", standard=False, kfp="system.Artifact")
MODEL = ArtifactType(name="Model", standard=True, kfp="system.Model")
MODEL_RUN = ArtifactType(name="ModelRun", standard=True, kfp="system.Artifact")
EVALUATION = ArtifactType(name="ModelEvaluation", standard=True, kfp="system.Artifact")
BLESSING = ArtifactType(name="ModelBlessing", standard=True, kfp="system.Artifact")
PUSHED_MODEL = ArtifactType(name="PushedModel", standard=True, kfp="system.Model")
TFLITE_MODEL = ArtifactType(name="TFLiteModel", standard=False, kfp="system.Model")
QUANTIZATION = ArtifactType(name="QuantizationReport", standard=False, kfp="system.Artifact")


@dataclasses.dataclass(frozen=True)
class Input:
    """Mark a field as an input artifact: the path of its folder, or "" for an absent optional one."""

    type: ArtifactType
    optional: bool = False


@dataclasses.dataclass(frozen=True)
class Output:
    """Mark a field as an output artifact: the local path of the folder to fill."""

    type: ArtifactType


@dataclasses.dataclass(frozen=True)
class JobFields:
    """The fields of a Job by role.

    Attributes:
        inputs: field name to `Input`.
        outputs: field name to `Output`.
        parameters: field name to codec and default.
    """

    inputs: dict[str, Input]
    outputs: dict[str, Output]
    parameters: dict[str, Parameter]


def job_fields(job_type: type) -> JobFields:
    """Read the roles of a Job class's fields from its annotations.

    It is a frozen dataclass. Artifacts are `Annotated[str, Input(...)]` or `Output(...)`; parameters are str,
    int, float, bool, or `Annotated` with a codec of `component_specs.codecs`.

    Raises:
        TypeError: for a field of another type.
    """
    hints = typing.get_type_hints(job_type, include_extras=True)
    roles = JobFields(inputs={}, outputs={}, parameters={})
    for field in dataclasses.fields(job_type):
        role = _role(hints[field.name])
        if isinstance(role, Input):
            roles.inputs[field.name] = role
        elif isinstance(role, Output):
            roles.outputs[field.name] = role
        elif role is not None:
            make = field.default_factory
            default = field.default if make is dataclasses.MISSING else make()
            roles.parameters[field.name] = Parameter(codec=role, default=default)
        else:
            raise TypeError(
                f"{job_type.__name__}.{field.name}: expected str, int, float, bool or an annotation with a"
                f" codec, found {hints[field.name]}"
            )
    return roles


def encode_parameters(job: Any) -> dict[str, Scalar]:
    """Return the encoded parameters of a Job."""
    parameters = job_fields(type(job)).parameters
    return {name: parameter.codec.encode(getattr(job, name)) for name, parameter in parameters.items()}


def options_of(kind: type[Options], source: Any, **given: Any) -> Options:
    """Return options from a Job's, or arguments', fields of the same names.

    `given` are the other fields, or replace some.
    """
    names = (field.name for field in dataclasses.fields(kind))  # type: ignore[arg-type]
    return kind(**{name: getattr(source, name) for name in names if hasattr(source, name)} | given)


def _role(hint: Any) -> Input | Output | Codec | None:
    if hint in (str, int, float, bool):
        return Plain(hint)
    markers = get_args(hint)[1:] if hasattr(hint, "__metadata__") else ()
    return next((m for m in markers if isinstance(m, Input | Output | Codec)), None)
