"""ConfigGen: write the text of a pipeline.config as an artifact."""

import os
from typing import Any

from component_specs import ConfigGenJob
from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.config.load import parse_pipeline_config, write_as_run


def run(job: ConfigGenJob) -> dict[str, Any]:
    """Write the formatted config, and return the artifact's properties; ConfigError for a bad text."""
    config = parse_pipeline_config(job.text, "text")
    write_as_run(config, os.path.join(job.pipeline_config, PIPELINE_CONFIG))
    return {"model": config.model.WhichOneof("model") or ""}
