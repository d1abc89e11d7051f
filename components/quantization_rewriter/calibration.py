"""Calibration on Beam: workers measure batches of training images, and this process sets the ranges."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from component_specs import QuantizationRewriterJob
from components.runtime.beam_parts import measure_parts
from detection_core.extensions import load_extensions
from detection_core.training.kernels import use_onednn


def gather_on_beam(job: QuantizationRewriterJob, parts: Sequence[range]) -> dict[int, Any]:
    """Measure parts of the batches on Beam's workers; see `CalibrationOptions.gather`.

    A distributed runner needs examples, config, detector and the output folder on shared storage.
    """
    load = functools.partial(_load, job)
    found = measure_parts(parts, load, job.quantization, job.beam_args, join=operator.or_)
    return functools.reduce(operator.or_, found, {})


def _load(job: QuantizationRewriterJob) -> Callable[[range], dict[int, Any]]:
    use_onednn()
    load_extensions()
    # They import TensorFlow, like extensions.
    from components.quantization_rewriter.run import read_config
    from detection_core.tasks.quantize import load_calibration

    return load_calibration(read_config(job), job.model)
