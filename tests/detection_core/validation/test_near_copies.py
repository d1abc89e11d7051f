import numpy as np

from detection_core.validation.duplicates import Pair
from detection_core.validation.near_copies import check_near_copies
from detection_core.validation.perceptual_hash import hash_image_file
from tests.detection_core.validation.pictures import jpeg, natural, scaled
from tests.detection_core.validation.samples import found_by


def _hash(number):
    return hash_image_file(jpeg(natural(np.random.default_rng(number))))


def _smaller(number):
    return hash_image_file(jpeg(scaled(natural(np.random.default_rng(number)), 0.5), 60))


def _found(hashes, copies=None, **given):
    return found_by(check_near_copies, hashes, copies or {}, **given)


TRAIN = [_hash(number) for number in range(10)]


def test_images_that_look_alike_are_found_and_copies_or_what_is_off_not_reported():
    found = _found({"train": TRAIN, "eval": [_hash(20), _smaller(3), _hash(21), None]})
    assert list(found) == ["near_leakage:eval"]
    finding = found["near_leakage:eval"]
    assert finding.measured == 0.25
    assert [(e.record, e.other.split, e.other.record) for e in finding.examples] == [(1, "train", 3)]
    found = _found({"train": [*TRAIN, _smaller(0), _smaller(1)]})
    assert list(found) == ["near_duplicates:train"]
    finding = found["near_duplicates:train"]
    assert (finding.count, [(e.record, e.other.record) for e in finding.examples]) == (2, [(10, 0), (11, 1)])
    pair = Pair(split="eval", record=0, other_split="train", other_record=3)
    assert _found({"train": TRAIN, "eval": [_hash(3)]}, {("eval", "train"): [pair]}) == {}
    assert "near_leakage:eval" in _found({"train": TRAIN, "eval": [_hash(3)]})
    hashes = {"train": [*TRAIN, _smaller(0), _smaller(1)], "eval": [_hash(3)]}
    off = {"severity": "off"}
    assert _found(hashes, near_leakage=off, near_duplicates=off) == {}
    assert _found({"train": [], "eval": []}) == {}
