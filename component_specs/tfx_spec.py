"""Jobs as TFX ComponentSpecs, and our own artifact types; the only module here that knows TFX.

TFX imports artifact and executor classes by module and name: none of them may move or change its name.
"""

from __future__ import annotations

import types as types_module
from typing import Any, ClassVar

from tfx import types
from tfx.types import component_spec, standard_artifacts

from component_specs import JOBS
from component_specs.annotations import ArtifactType, job_fields
from component_specs.baseline_resolver import BaselineResolverJob
from component_specs.config_gen import ConfigGenJob
from component_specs.data_validator import DataValidatorJob
from component_specs.evaluator import EvaluatorJob
from component_specs.example_gen import ExampleGenJob
from component_specs.pusher import PusherJob
from component_specs.quantization_rewriter import QuantizationRewriterJob
from component_specs.run_checker import RunCheckerJob
from component_specs.tflite_exporter import TFLiteExporterJob
from component_specs.trainer import TrainerJob


class PipelineConfig(types.Artifact):
    """A pipeline.config."""

    TYPE_NAME = "PipelineConfig"


class DataBlessing(types.Artifact):
    """Whether examples may be trained on."""

    TYPE_NAME = "DataBlessing"


class TFLiteModel(types.Artifact):
    """TensorFlow Lite files of a detector."""

    TYPE_NAME = "TFLiteModel"


class QuantizationReport(types.Artifact):
    """What of a detector is quantized and what is not."""

    TYPE_NAME = "QuantizationReport"


_OWN_TYPES = {cls.TYPE_NAME: cls for cls in (PipelineConfig, DataBlessing, TFLiteModel, QuantizationReport)}


def artifact_class(artifact_type: ArtifactType) -> Any:
    """Return the TFX artifact class of a type: TFX's own where it has one."""
    if artifact_type.standard:
        return getattr(standard_artifacts, artifact_type.name)
    return _OWN_TYPES[artifact_type.name]


class JobSpec(component_spec.ComponentSpec):
    """A ComponentSpec whose keys are the fields of a Job. Subclasses, one a component, name the Job."""

    PARAMETERS: ClassVar[dict[str, Any]] = {}
    INPUTS: ClassVar[dict[str, Any]] = {}
    OUTPUTS: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, *, job_type: type) -> None:
        """Fill the keys from the Job's annotations."""
        super().__init_subclass__()
        fields = job_fields(job_type)
        cls.PARAMETERS = {
            name: component_spec.ExecutionParameter(type=p.carried_as, optional=not p.required)
            for name, p in fields.parameters.items()
        }
        cls.INPUTS = {
            name: component_spec.ChannelParameter(type=artifact_class(i.type), optional=i.optional)
            for name, i in fields.inputs.items()
        }
        cls.OUTPUTS = {
            name: component_spec.ChannelParameter(type=artifact_class(o.type))
            for name, o in fields.outputs.items()
        }


class RunCheckerSpec(JobSpec, job_type=RunCheckerJob):
    """Spec of RunChecker."""


class ConfigGenSpec(JobSpec, job_type=ConfigGenJob):
    """Spec of ConfigGen."""


class ExampleGenSpec(JobSpec, job_type=ExampleGenJob):
    """Spec of ExampleGen."""


class BaselineResolverSpec(JobSpec, job_type=BaselineResolverJob):
    """Spec of BaselineResolver."""


class DataValidatorSpec(JobSpec, job_type=DataValidatorJob):
    """Spec of DataValidator."""


class TrainerSpec(JobSpec, job_type=TrainerJob):
    """Spec of Trainer."""


class EvaluatorSpec(JobSpec, job_type=EvaluatorJob):
    """Spec of Evaluator."""


class QuantizationRewriterSpec(JobSpec, job_type=QuantizationRewriterJob):
    """Spec of QuantizationRewriter."""


class TFLiteExporterSpec(JobSpec, job_type=TFLiteExporterJob):
    """Spec of TFLiteExporter."""


class PusherSpec(JobSpec, job_type=PusherJob):
    """Spec of Pusher."""


COMPONENT = "registered_component"
"""Parameter of nodes of components from outside of the package: which one it is."""


def registered_spec(component: str) -> type[JobSpec]:
    """Return the spec of a component from outside of the package."""
    made: Any = types_module.new_class(f"{component}_spec", (JobSpec,), {"job_type": JOBS[component]})
    made.PARAMETERS = {**made.PARAMETERS, COMPONENT: component_spec.ExecutionParameter(type=str)}
    return made
