"""QuantizationRewriter: train a float detector with quantization, and record the result."""

import functools
import os
from typing import Any

from component_specs.quantization_rewriter import QuantizationRewriterJob
from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.config.check import check_pipeline_config
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import load_config
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.tasks.examples import check_split
from detection_core.tasks.fitting.work_folder import ResumeOptions
from detection_core.tasks.quantize import CalibrationOptions, quantize


def run(job: QuantizationRewriterJob) -> dict[str, Any]:
    """Continue training the detector as the job's pipeline.config says.

    Returns:
        Properties of the model artifact.
    """
    check_split(job.examples, "train")
    gather = None
    if job.distributed:
        # Importing Beam takes seconds.
        from components.quantization_rewriter.calibration import gather_on_beam

        gather = functools.partial(gather_on_beam, job)
    report = quantize(
        read_config(job),
        model_dir=job.model,
        quantized_model_dir=job.quantized_model,
        quantized_run_dir=job.quantized_run,
        quantization_dir=job.quantization,
        work_dir=job.work_dir,
        resume=ResumeOptions(code_version=job.code_version, checkpoint_minutes=job.checkpoint_minutes),
        calibration=CalibrationOptions(examples=job.representative_examples, gather=gather),
    )
    return {
        "steps": report.steps,
        "loss": report.loss,
        "seconds": report.seconds,
        "coverage": report.coverage,
        "not_quantized": len(report.not_quantized),
    }


def read_config(job: QuantizationRewriterJob) -> CheckedConfig:
    """Read and check the job's config, with its examples."""
    config = load_config(os.path.join(job.pipeline_config, PIPELINE_CONFIG), job.overrides)
    return check_pipeline_config(point_at_examples(config, job.examples))
