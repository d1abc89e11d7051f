from __future__ import annotations

import dataclasses

from detection_core.data.label_map import label_map_from_names
from detection_core.datasets.decoding import find_decoding
from detection_core.validation.checks import FindingList, make_limits
from detection_core.validation.decoded_images import ImageFiles
from detection_core.validation.labelled_images import parse_record
from detection_core.validation.perceptual_hash import hash_image_file
from tests.support.made_examples import CLASSES, Made, encode, picture_bytes

LABELS = label_map_from_names(list(CLASSES))


def _images(count, broken=()):
    for number in range(count):
        data = picture_bytes(number % 7)
        data = data[: len(data) // 2] if number in broken else data
        image = parse_record(encode(Made(data=data), number), number, LABELS)
        yield dataclasses.replace(image, record=number)


def _look(count, decode, *, hashes=False, broken=()):
    with ImageFiles(count, find_decoding(decode), hashes=hashes) as files:
        for image in _images(count, broken):
            files.add(image)
    findings = FindingList(make_limits({}))
    files.report("train", findings)
    return files, findings


def test_hashes_come_in_the_order_of_the_records():
    files, findings = _look(100, "none", hashes=True)
    assert list(files.hashes) == [hash_image_file(picture_bytes(number % 7)) for number in range(100)]
    assert files.decoded == 100 and findings.findings() == []


def test_all_images_are_decoded_on_request_and_a_sample_otherwise():
    assert _look(100, "all")[0].decoded == 100
    assert _look(100, "sample")[0].decoded == 16
    files, findings = _look(100, "none")
    assert files.decoded == 0 and list(files.hashes) == [None] * 100
    assert findings.outcomes()["undecodable_images"] == "no image was decoded"


def test_a_damaged_image_is_found_and_has_no_hash():
    for decode, hashes in (("all", False), ("all", True), ("none", True)):
        files, findings = _look(10, decode, hashes=hashes, broken=(3, 7))
        [finding] = findings.findings()
        assert (finding.check, finding.measured) == ("undecodable_images", 0.2)
        assert [e.record for e in finding.examples] == [3, 7] and "decode" in finding.examples[0].note
        assert files.hashes[3] is None and len(files.hashes) == 10


def test_an_error_elsewhere_ends_the_threads():
    try:
        with ImageFiles(10, find_decoding("all"), hashes=True) as files:
            files.add(next(_images(1)))
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert files._pool._shutdown
