"""DataValidator: examples in, statistics, findings and a verdict out."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from component_specs import DataValidatorJob
from detection_core.artifacts.blessing import write_blessing
from detection_core.artifacts.data_statistics import STATISTICS, keep_spans, read_spans
from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.config.load import load_config
from detection_core.datasets.encoding import find_decoding
from detection_core.tasks.validate_data import ValidationFolders, ValidationOptions, validate_examples
from detection_core.validation.checks import make_limits
from detection_core.validation.split_pass import DataPass, PassOptions, RecordPart, read_all

_LONGEST = 2_000
"""Longest reasons passed to the next step, in characters; reasons.json has all of them."""


def run(job: DataValidatorJob) -> dict[str, Any]:
    """Validate the examples and bless them unless something stops the run.

    Returns:
        Properties of the statistics; `stop_reasons`, which Trainer takes, is empty for blessed examples.

    Raises:
        ConfigError: for invalid checks.
        DataError: when examples are missing or damaged.
    """
    options = ValidationOptions(
        limits=make_limits(job.checks),
        decoding=find_decoding(job.decode_images),
        near_duplicate_images=job.near_duplicate_images,
        schema=job.schema_text,
        earlier_spans=read_spans(job.span_folder, list(job.earlier_spans)),
    )
    config = load_config(os.path.join(job.pipeline_config, PIPELINE_CONFIG), job.overrides)
    folders = ValidationFolders(statistics=job.statistics, schema=job.schema, anomalies=job.anomalies)
    gather = functools.partial(_gather_on_beam, job) if job.distributed else read_all
    found = validate_examples(job.examples, config, job.baseline, options, folders, gather=gather)
    if job.span_folder and not found.reasons:  # do not compare later spans with refused data
        keep_spans(job.span_folder, STATISTICS.read(job.statistics).spans)
    write_blessing(job.blessing, not found.reasons, [*found.reasons, *found.warnings])
    return {
        "stop_reasons": "; ".join(found.reasons)[:_LONGEST],
        "blessed": not found.reasons,
        "findings": len(found.findings),
        "images": sum(found.images.values()),
    }


def _gather_on_beam(job: DataValidatorJob, parts: Sequence[RecordPart], options: PassOptions) -> DataPass:
    """Pass over the examples on Beam's workers, a file of records at a time."""
    # Importing Beam takes seconds.
    from components.runtime.beam_parts import measure_parts

    load = functools.partial(_load, options)
    found = measure_parts(parts, load, job.anomalies, job.beam_args, join=DataPass.merge)
    return functools.reduce(DataPass.merge, found, DataPass(options))


def _load(options: PassOptions) -> Callable[[RecordPart], DataPass]:
    # A merged pass holds counts, but no images that wait to be counted.
    return lambda part: DataPass(options).merge(DataPass(options).read(part))
