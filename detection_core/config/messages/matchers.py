"""Matchers of anchors to objects, and their similarity measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from detection_core.allowed_values import FRACTION
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.argmax_matcher_pb2 import ArgMaxMatcher

_KERNEL = "it chose a kernel for an accelerator; the result is the same with and without"


def _argmax(message: ArgMaxMatcher, path: str) -> Iterator[Problem]:
    if message.ignore_thresholds:
        return
    unmatched, matched = message.unmatched_threshold, message.matched_threshold
    if unmatched > matched:
        text = f"expected at most matched_threshold, which is {matched:g}, found {unmatched:g}"
        yield Problem(path=f"{path}.unmatched_threshold", message=text)
    if unmatched == matched and not message.negatives_lower_than_unmatched:
        text = "expected true, as unmatched_threshold equals matched_threshold, found false"
        yield Problem(path=f"{path}.negatives_lower_than_unmatched", message=text)


RULES: Mapping[str, Rules] = {
    "Matcher": Rules("builders.anchors", oneofs=("matcher_oneof",)),
    "ArgMaxMatcher": Rules(
        "builders.anchors",
        ranges={"matched_threshold": FRACTION, "unmatched_threshold": FRACTION},
        check=_argmax,
        without_effect={"use_matmul_gather": _KERNEL},
    ),
    "BipartiteMatcher": Rules(without_effect={"use_matmul_gather": _KERNEL}),
    "RegionSimilarityCalculator": Rules("builders.anchors", oneofs=("region_similarity",)),
    "ThresholdedIouSimilarity": Rules("builders.anchors"),
    "IouSimilarity": Rules(),
    "IoaSimilarity": Rules(),
    "NegSqDistSimilarity": Rules(),
}
