"""Contract of ConfigGen."""

import dataclasses
from typing import Annotated

from component_specs.annotations import PIPELINE_CONFIG, Output
from component_specs.codecs import PackedText


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfigGenJob:
    """Write a pipeline.config as an artifact that the other steps read.

    Argo's Workflow of a run repeats every parameter many times, and its size is limited. So give a long text
    only to this step.
    """

    pipeline_config: Annotated[str, Output(PIPELINE_CONFIG)]
    text: Annotated[str, PackedText("a pipeline.config")]
    code_version: str = ""
