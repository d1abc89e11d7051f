"""ConfigGen: the text of a pipeline.config in, an artifact that holds it out."""

from __future__ import annotations

import os
from typing import Any

from component_specs import ConfigGenJob
from component_specs.packed_text import unpack
from components.runtime.pipeline_config import FILE_NAME
from detection_core.config.load import parse_pipeline_config, write_as_run
from detection_core.errors import ConfigError


def run(job: ConfigGenJob) -> dict[str, Any]:
    """Write the config, laid out for readers.

    Returns:
        Properties of the artifact.

    Raises:
        ConfigError: for a text that does not fit the schema.
    """
    try:
        text = unpack(job.text)
    except ValueError as e:
        raise ConfigError(f"expected a pipeline.config, found {e}", where="text") from e
    config = parse_pipeline_config(text, "text")
    write_as_run(config, os.path.join(job.pipeline_config, FILE_NAME))
    return {"model": config.model.WhichOneof("model") or ""}
