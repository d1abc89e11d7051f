"""Contract of BaselineResolver."""

import dataclasses
from typing import Annotated

from component_specs.annotations import MODEL, Output


@dataclasses.dataclass(frozen=True, kw_only=True)
class BaselineResolverJob:
    """Fetch the deployed model, the baseline of the new one.

    Attributes:
        push_destination: folder that Pusher publishes to.
        baseline_version: the version to fetch; empty: none.
        code_version: fingerprint of the code; part of the cache key.
        baseline: folder to fill; without a baseline it holds only a file `ABSENT`.
    """

    baseline: Annotated[str, Output(MODEL)]
    push_destination: str
    baseline_version: str = ""
    code_version: str = ""
