"""The page of a data set, of examples of any version."""

import json
import re
from pathlib import Path

import pytest

from detection_core.artifacts.box_profile import ANCHOR_MATCHES, BOX_PROFILES
from detection_core.artifacts.dataset_card import CARD, QUARANTINE, QuarantinedEntry
from detection_core.artifacts.pictures import list_pictures
from detection_core.config.load import load_checked_config
from detection_core.errors import DetectionError
from detection_core.report.data_page import data_page
from detection_core.tasks.report_data import report_examples
from tests.support.cases import refused
from tests.support.made_examples import Made, write_examples

CONFIG = Path(__file__).parents[3] / "examples" / "digits" / "pipeline.config"
BOXES = ((0.1, 0.1, 0.5, 0.5), (0.2, 0.2, 0.25, 0.25))


@pytest.fixture
def examples(tmp_path):
    dogs = [Made(boxes=BOXES, classes=("dog", "cat")) for _ in range(3)]
    crowd = Made(boxes=(BOXES[0],), classes=("cat",), crowd=(1,))
    shared = Made(picture=7, boxes=())
    splits = {"train": [*dogs, crowd, shared], "eval": [Made(), Made(picture=7, boxes=())]}
    return write_examples(tmp_path / "examples", splits)


def test_examples_of_any_version_get_a_page(examples, tmp_path):
    report = report_examples(examples, str(tmp_path / "report"), title="my <data>")
    card = CARD.read(str(tmp_path / "report"))
    assert (card.total.images, card.total.objects, card.total.empty_images) == (7, 8, 2)
    assert [(c.name, c.objects) for c in card.classes] == [("cat", 5), ("dog", 3)]
    assert card.splits["eval"].classes == {"cat": 1, "dog": 0}
    profile = BOX_PROFILES.read(str(tmp_path / "report")).splits["train"]
    assert profile.boxes == 6 and profile.per_image.counts[:3] == [2, 0, 3]
    page = (tmp_path / "report" / "index.html").read_text()
    assert report.page.endswith("index.html")
    assert "my &lt;data&gt;" in page and "<script" not in page and "://" not in page
    for heading in ("Boxes", "Samples", "cat", "dog", "Smallest boxes", "Quarantine"):
        assert re.search(rf"<h[34][^>]*>{heading}</h[34]>", page), heading
    assert "Size of the boxes" in page and "train: image-0" in page
    # The image that is in both splits is a finding, with its pictures.
    assert [finding.check for finding in report.findings.findings if finding.check == "leakage"]
    assert "are in train, too" in page
    pictures = list_pictures(str(tmp_path / "report"))
    assert {p.kind for p in pictures} == {"sample", "smallest"} and all(p.read() for p in pictures)


def test_what_example_gen_counted_and_put_aside_is_taken_over(examples, tmp_path):
    given = json.loads(CARD.format(CARD.parse('{"format": "voc", "images_in_two_splits": 3}', "card")))
    (tmp_path / "examples" / "dataset_card.json").write_text(json.dumps(given))
    QUARANTINE.write(examples, [QuarantinedEntry(split="train", file="b.xml", reason="box_outside")])
    assert report_examples(examples, str(tmp_path / "report")).card.format == "voc"
    page = (tmp_path / "report" / "index.html").read_text()
    assert "3 images are in more than one split" in page and "b.xml" in page


def test_with_a_config_boxes_are_held_against_its_anchors(examples, tmp_path):
    config = load_checked_config(str(CONFIG))
    config.model.ssd.ClearField("num_classes")  # it follows the label map
    report = report_examples(examples, str(tmp_path / "report"), config=config)
    matches = ANCHOR_MATCHES.read(str(tmp_path / "report"))
    assert matches.input_size == (160, 160) and matches.anchors > 1000
    train = matches.splits["train"]
    assert train.boxes == 6 and sum(train.overlaps.counts) == 6 and 0 < train.matched <= 6
    page = (tmp_path / "report" / "index.html").read_text()
    assert "boxes have an anchor with an IoU of 0.5 or more" in page and 'class="mark"' in page
    assert report.findings.checks["unmatched_boxes"] in ("passed", "warn")
    # A later report without a config says nothing of anchors.
    plain = report_examples(examples, str(tmp_path / "report"))
    assert ANCHOR_MATCHES.find(str(tmp_path / "report")) is None
    assert 'id="anchors"' not in (tmp_path / "report" / "index.html").read_text()
    assert plain.findings.checks["unmatched_boxes"] == "no pipeline.config was given"


def test_the_same_page_stands_beside_all_that_it_is_made_from_every_time(examples, tmp_path, caplog):
    folder = tmp_path / "report"
    with caplog.at_level("INFO"):
        report_examples(examples, str(folder))
    # The examples are read once.
    done = [record.getMessage() for record in caplog.records if "| image " in record.getMessage()]
    assert len(done) == 1 and done[0].startswith("validate | image 7/7")
    first = {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    # Pictures of an earlier report go.
    (folder / "pictures" / "sample-0009-0.jpg").write_bytes(b"old")
    report_examples(examples, str(folder))
    assert {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == first and len(first) > 8
    page = (folder / "index.html").read_text()
    assert data_page(str(folder), sample_bytes=12_000_000) == page
    moved = tmp_path / "moved"
    folder.rename(moved)
    assert data_page(str(moved), sample_bytes=12_000_000) == page.replace(str(folder), str(moved))


def test_without_examples_there_is_no_page(tmp_path):
    refused(DetectionError, "", report_examples, str(tmp_path / "nothing"), str(tmp_path / "report"))
    assert not (tmp_path / "report" / "index.html").exists()
