import io

from PIL import Image

from detection_core.artifacts.data_findings import Finding, FoundExample, OtherExample
from detection_core.config.input_paths import split_pattern
from detection_core.validation.found_examples import complete_examples
from detection_core.validation.labelled_images import read_some
from tests.detection_core.validation.samples import LABELS
from tests.support.dataset_files import subfolder
from tests.support.made_examples import Made, write_examples


def _finding(*examples):
    said = {"id": "leakage:eval", "check": "leakage", "severity": "warn", "message": "m"}
    return Finding(**said, measured=1, threshold=0, examples=list(examples))


def _example(record, other=None, split="train"):
    return FoundExample(split=split, source_id="", record=record, other=other)


def _complete(tmp_path, *findings):
    made = [Made(source_id=f"id {i}") for i in range(30)]
    made[3] = Made(source_id="broken", data=b"no image")
    folder = write_examples(tmp_path / "examples", {"train": made, "eval": [Made(source_id="other")]})

    def read(split, numbers):
        return read_some(split_pattern(folder, split), LABELS, numbers)

    return complete_examples(findings, read, LABELS.names, str(tmp_path / "out"))


def test_examples_get_ids_and_pictures_where_they_decode_and_findings_without_read_nothing(tmp_path):
    [finding] = _complete(tmp_path, _finding(*(_example(i) for i in range(4, 20))))
    assert [e.source_id for e in finding.examples] == [f"id {i}" for i in range(4, 20)]
    assert [bool(e.picture) for e in finding.examples] == [True] * 6 + [False] * 10
    picture = (tmp_path / "out" / "pictures" / finding.examples[0].picture).read_bytes()
    assert Image.open(io.BytesIO(picture)).size == (320, 240)
    below = subfolder(tmp_path, 1)
    [finding] = _complete(below, _finding(_example(3)))
    assert (finding.examples[0].source_id, finding.examples[0].picture) == ("broken", "")
    below = subfolder(tmp_path, 2)
    other = OtherExample(split="eval", source_id="", record=0)
    [finding] = _complete(below, _finding(_example(2, other)))
    [example] = finding.examples
    assert example.other.source_id == "other"
    picture = (below / "out" / "pictures" / example.picture).read_bytes()
    assert Image.open(io.BytesIO(picture)).width > 2 * 240

    def read(split, numbers):
        raise AssertionError("nothing is to be read")

    assert complete_examples([_finding()], read, [], "/nowhere") == [_finding()]
