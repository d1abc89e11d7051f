from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from detection_core.validation.checks import FindingList, make_limits
from detection_core.validation.duplicates import (
    DigestList,
    Pair,
    check_duplicates,
    repeated_images,
    shared_images,
)


def _digests(names):
    digests = DigestList()
    for name in names:
        digests.add(hashlib.sha256(name.encode()).digest() if name else b"")
    return digests


_NAMES = st.lists(st.sampled_from(["", "a", "b", "c", "d", "e"]), max_size=12)


@given(_NAMES, _NAMES)
def test_shared_images_are_those_of_a_slow_search(here, there):
    expected = [
        Pair(split="eval", record=i, other_split="train", other_record=there.index(name))
        for i, name in enumerate(here)
        if name and name in there
    ]
    assert shared_images("eval", _digests(here), "train", _digests(there)) == expected


@given(_NAMES)
def test_repeated_images_are_those_of_a_slow_search(names):
    expected = [
        Pair(split="train", record=i, other_split="train", other_record=names.index(name))
        for i, name in enumerate(names)
        if name and names.index(name) != i
    ]
    assert repeated_images("train", _digests(names)) == expected


def test_leakage_and_repetition_are_found_with_the_records_to_look_at():
    findings = FindingList(make_limits({"leakage": {"severity": "stop"}}))
    digests = {"train": _digests("abcdefghij"), "eval": _digests("xxaz")}
    check_duplicates(digests, findings)
    leaked, repeated = findings.findings()
    assert (leaked.id, leaked.severity, leaked.measured) == ("leakage:eval", "stop", 0.25)
    assert [(e.record, e.other.split, e.other.record) for e in leaked.examples] == [(2, "train", 0)]
    assert (repeated.id, repeated.count) == ("duplicates:eval", 1)


def test_without_a_repetition_nothing_is_found():
    findings = FindingList(make_limits({}))
    check_duplicates({"train": _digests("abc"), "eval": _digests("de"), "test": _digests("")}, findings)
    assert findings.findings() == []
