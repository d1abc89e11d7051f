import contextlib

from detection_core.datasets.decoding import find_decoding
from detection_core.validation.decoded_images import ImageFiles
from detection_core.validation.perceptual_hash import hash_image_file
from tests.detection_core.validation.samples import findings_of, labelled
from tests.support.made_examples import picture_bytes


def _images(count, broken=()):
    for number in range(count):
        data = picture_bytes(number % 7)
        yield labelled(number, data=data[: len(data) // 2] if number in broken else data)


def _look(count, decode, *, hashes=False, broken=()):
    with ImageFiles(count, find_decoding(decode), hashes=hashes) as files:
        for image in _images(count, broken):
            files.add(image)
    return files, findings_of(files.report, "train")


def test_images_are_decoded_as_asked_for_and_damaged_ones_found():
    files, findings = _look(100, "none", hashes=True)
    assert list(files.hashes) == [hash_image_file(picture_bytes(number % 7)) for number in range(100)]
    assert files.decoded == 100 and findings.findings() == []
    assert _look(100, "all")[0].decoded == 100
    assert _look(100, "sample")[0].decoded == 16
    files, findings = _look(100, "none")
    assert files.decoded == 0 and list(files.hashes) == [None] * 100
    assert findings.outcomes()["undecodable_images"] == "no image was decoded"
    for decode, hashes in (("all", False), ("all", True), ("none", True)):
        files, findings = _look(10, decode, hashes=hashes, broken=(3, 7))
        [finding] = findings.findings()
        assert (finding.check, finding.measured) == ("undecodable_images", 0.2)
        assert [e.record for e in finding.examples] == [3, 7] and "decode" in finding.examples[0].note
        assert files.hashes[3] is None and len(files.hashes) == 10
    files = ImageFiles(10, find_decoding("all"), hashes=True)
    with contextlib.suppress(KeyboardInterrupt), files:
        files.add(next(_images(1)))
        raise KeyboardInterrupt
    assert files._pool._shutdown
