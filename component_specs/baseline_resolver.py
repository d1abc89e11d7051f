"""Contract of BaselineResolver."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from component_specs.annotations import MODEL, Output


@dataclasses.dataclass(frozen=True, kw_only=True)
class BaselineResolverJob:
    """Fetch the deployed model, which the new one must not fall behind.

    Attributes:
        push_destination: where Pusher publishes.
        baseline_version: the version to fetch; empty: there is none, and the output stays empty.
        code_version: fingerprint of the code; only there to key the cache.
        baseline: folder to fill; holds a file `ABSENT` and nothing else where there is no baseline.
    """

    baseline: Annotated[str, Output(MODEL)]
    push_destination: str
    baseline_version: str = ""
    code_version: str = ""
