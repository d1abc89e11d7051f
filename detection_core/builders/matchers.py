"""Matcher messages to matchers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detection_core.builders.oneof import build_oneof
from detection_core.parts.matchers.argmax import ArgMaxMatcher, ArgMaxMatcherOptions
from detection_core.parts.matchers.base import Matcher
from detection_core.parts.matchers.bipartite import GreedyBipartiteMatcher
from detection_core.protos import argmax_matcher_pb2, bipartite_matcher_pb2, matcher_pb2


# `use_matmul_gather` only chose a kernel for TPUs; matches do not depend on it.
def _argmax(message: argmax_matcher_pb2.ArgMaxMatcher) -> Matcher:
    thresholds = None if message.ignore_thresholds else message
    options = ArgMaxMatcherOptions(
        matched_threshold=thresholds.matched_threshold if thresholds else None,
        unmatched_threshold=thresholds.unmatched_threshold if thresholds else None,
        negatives_lower_than_unmatched=message.negatives_lower_than_unmatched,
        force_match_for_each_row=message.force_match_for_each_row,
    )
    return ArgMaxMatcher(options)


def _bipartite(message: bipartite_matcher_pb2.BipartiteMatcher) -> Matcher:
    del message  # Its only field, `use_matmul_gather`, has no effect, as above.
    return GreedyBipartiteMatcher()


MATCHERS: dict[str, Callable[[Any], Matcher]] = {
    "argmax_matcher": _argmax,
    "bipartite_matcher": _bipartite,
}


def build_matcher(message: matcher_pb2.Matcher) -> Matcher:
    """Build the matcher that a checked message describes."""
    return build_oneof(message, "matcher_oneof", MATCHERS)
