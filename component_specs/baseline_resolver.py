"""Contract of BaselineResolver."""

import dataclasses
from typing import Annotated

from component_specs.annotations import MODEL, Output


@dataclasses.dataclass(frozen=True, kw_only=True)
class BaselineResolverJob:
    """Fetch the deployed model, the baseline of the new one."""

    baseline: Annotated[str, Output(MODEL)]
    push_destination: str
    baseline_version: str = ""
    code_version: str = ""
