import hashlib

from hypothesis import given
from hypothesis import strategies as st

from detection_core.validation import duplicates
from detection_core.validation.duplicates import DigestList, Pair, check_duplicates
from tests.detection_core.validation.samples import findings_of


def _digests(names):
    digests = DigestList()
    for name in names:
        digests.add(hashlib.sha256(name.encode()).digest() if name else b"")
    return digests


def _pair(split, record, other):
    return Pair(split=split, record=record, other_split="train", other_record=other)


_NAMES = st.lists(st.sampled_from(["", "a", "b", "c", "d", "e"]), max_size=12)


@given(_NAMES, _NAMES)
def test_shared_and_repeated_images_are_those_of_a_slow_search(here, there):
    shared = [_pair("eval", i, there.index(n)) for i, n in enumerate(here) if n and n in there]
    assert duplicates.shared_images("eval", _digests(here), "train", _digests(there)) == shared
    repeated = [_pair("train", i, here.index(n)) for i, n in enumerate(here) if n and here.index(n) != i]
    assert duplicates.repeated_images("train", _digests(here)) == repeated


def test_leakage_and_repetition_are_found_with_the_records_to_look_at():
    digests = {"train": _digests("abcdefghij"), "eval": _digests("xxaz")}
    leaked, repeated = findings_of(check_duplicates, digests, leakage={"severity": "stop"}).findings()
    assert (leaked.id, leaked.severity, leaked.measured) == ("leakage:eval", "stop", 0.25)
    assert [(e.record, e.other.split, e.other.record) for e in leaked.examples] == [(2, "train", 0)]
    assert (repeated.id, repeated.count) == ("duplicates:eval", 1)
    alone = {"train": _digests("abc"), "eval": _digests("de"), "test": _digests("")}
    assert findings_of(check_duplicates, alone).findings() == []
