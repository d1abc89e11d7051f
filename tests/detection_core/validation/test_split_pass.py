import dataclasses

from detection_core.config.input_paths import split_pattern
from detection_core.datasets.decoding import find_decoding
from detection_core.progress import Progress
from detection_core.validation.labelled_images import read_split
from detection_core.validation.sample_pictures import SamplePictures
from detection_core.validation.split_pass import MOST_FOLDERS, FolderCounters, PassOptions, pass_over
from tests.detection_core.validation.samples import LABELS
from tests.support.made_examples import Made, write_examples


def _pass(tmp_path, images, *, split="train", spans=(), hashes=False):
    folder = write_examples(tmp_path, {split: images})
    counted = {"classes": LABELS.names, "pictures": SamplePictures(LABELS.names), "spans": spans}
    options = PassOptions(**counted, decoding=find_decoding("none"), hashes=hashes)
    folders = FolderCounters(LABELS.names)
    with Progress("validate", total=len(images), unit="image") as progress:
        read = read_split(split_pattern(folder, split), LABELS)
        found = pass_over(split, read, len(images), options, folders, progress)
    return found, folders.statistics()


def test_everything_is_gathered_in_one_pass_by_span_and_by_folder(tmp_path):
    images = [Made(picture=n) for n in (1, 2, 1)]
    found, _ = _pass(tmp_path, images, hashes=True)
    assert found.hashes[0] == found.hashes[2] != found.hashes[1]
    assert found.digests.values()[0].tolist()[0] == found.digests.values()[0].tolist()[2]
    assert len(found.boxes.boxes) == 3 and found.features.datasets[0].num_examples == 3
    assert found.annotations.objects_digest(0) == found.annotations.objects_digest(1)
    images = [Made(source_id=name) for name in ("1/a", "1/b", "2/a", "3/a")]
    found, _ = _pass(tmp_path / "train", images, spans=("1", "2"))
    assert {span: sample.images for span, sample in found.spans.items()} == {"1": 2, "2": 1}
    assert found.statistics.images == 4
    assert _pass(tmp_path / "eval", images, split="eval", spans=("1", "2"))[0].spans == {}
    images = [Made(filename=f"{name}/{n}.png") for name in ("anna", "ben") for n in range(3)]
    _, folders = _pass(tmp_path / "few", images)
    assert {name: sample.images for name, sample in folders.items()} == {"anna": 3, "ben": 3}
    many = [Made(filename=f"{n}/a.png", picture=1) for n in range(MOST_FOLDERS + 1)]
    assert _pass(tmp_path / "many", many)[1] == {}
    assert _pass(tmp_path / "one", [dataclasses.replace(images[0])] * 3)[1] == {}
