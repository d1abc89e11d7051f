"""Verbs under one name, such as `detflow schedule create`."""

from __future__ import annotations

import dataclasses

from pipeline.cli.base import Verb


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """Verbs under one name.

    Attributes:
        name: what the user types first.
        summary: one sentence.
        verbs: what may follow; their examples begin with `detflow GROUP VERB`.
        default: verb that is meant where the next word is none of them; empty: there is none.
        alone: verbs that may be typed without the group's name; help lists them with the group only.
    """

    name: str
    summary: str
    verbs: tuple[Verb, ...]
    default: str = ""
    alone: tuple[str, ...] = ()
