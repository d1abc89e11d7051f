"""Every reason for quarantine: a record that has exactly this fault is put aside for exactly this reason."""

import io

from PIL import Image

from components.example_gen.ingestion import read_dataset
from detection_core.data.pixels import check_with_both
from detection_core.datasets import annotated_images
from detection_core.datasets.annotated_images import REASONS, Rejected, checked_text, path_inside
from detection_core.datasets.encoding import make_example
from tests.support.cases import cases, refused
from tests.support.dataset_files import Coco, picture, voc_xml, write_voc
from tests.support.faulty_sets import COCO_FAULTS, NO_PIXELS, VOC_FAULTS, WRONG_TABLE  # noqa: F401 (for others)
from tests.support.storage_faults import few_descriptors


def _read(path, data_format="coco", splits=None):
    return read_dataset(path, data_format, splits or {"train": 1}, None)


def test_used_up_descriptors_and_other_formats_are_no_faults_of_an_image(tmp_path):
    (tmp_path / "a.xml").write_text("<annotation/>")
    with few_descriptors(0):
        refused(OSError, "Too many open files", annotated_images.read_annotation, str(tmp_path / "a.xml"))
    coco = Coco(tmp_path, images=0)
    for number, image_format in enumerate(("BMP", "GIF", "TIFF", "WEBP"), start=1):
        coco.add_image(number, data=picture(image_format, seed=number))
    dataset = _read(coco.write())
    for record in dataset.splits["train"]:
        example = make_example(record, dataset.label_map.ids_by_text)
        assert (example.converted, example.image.format) == (True, "png")
        source = Image.open(record.path).convert("RGB")
        assert Image.open(io.BytesIO(example.image.data)).tobytes() == source.tobytes()


def quarantine_of(dataset, check_pixels=check_with_both):
    """Return (record, reason) of all that shards of `decode_images: all` put aside."""
    found = [(r.record, r.reason) for rejections in dataset.rejected.values() for r in rejections]
    for records in dataset.splits.values():
        for record in records:
            try:
                make_example(record, dataset.label_map.ids_by_text, check_pixels)
            except Rejected as e:
                found.append((record.source_id, e.reason))
    return found


@cases(*COCO_FAULTS, *VOC_FAULTS)
def test_a_record_with_one_fault_is_put_aside_for_it(tmp_path, *, reason):
    if reason in COCO_FAULTS:
        coco = Coco(tmp_path)
        COCO_FAULTS[reason](coco)
        assert [r for _, r in quarantine_of(_read(coco.write()))] == [reason]
        return
    path = write_voc(tmp_path)
    VOC_FAULTS[reason](tmp_path)
    assert quarantine_of(_read(path, "voc", {"train": "ImageSets/Main/train.txt"})) == [("b", reason)]


def test_a_sound_data_set_has_nothing_in_quarantine_and_a_bad_box_takes_its_whole_image_along(tmp_path):
    assert COCO_FAULTS.keys() | VOC_FAULTS.keys() == REASONS.keys(), "a case for every reason"
    coco, voc = _read(Coco(tmp_path / "coco").write()), _read(write_voc(tmp_path / "voc"), "voc")
    assert quarantine_of(coco) == quarantine_of(voc) == []
    assert len(coco.splits["train"]) == 6 and len(voc.splits["train"]) == 4
    path = write_voc(tmp_path / "voc", b=voc_xml("b", boxes=[(1, 1, 9, 9), (4, 4, 4, 4)]))
    assert quarantine_of(_read(path, "voc")) == [("b", "box_degenerate")]


def test_names_stay_in_the_folder_and_have_an_end(tmp_path):
    for name in ("", "..", "../a.jpg", "a/../../b.jpg", "/etc/passwd", "http://host/a.jpg", "a\0.jpg"):
        refused(Rejected, "leaves the image folder", path_inside, "images", name)
    assert path_inside("images", "a/../b..c.jpg") == "images/a/../b..c.jpg"
    assert checked_text("x" * 4_096, "a class") == "x" * 4_096
    message = r"a class in 4,096 characters at most, found 'x+'\.\.\. of 1,000,000"
    refused(Rejected, message, checked_text, "x" * 1_000_000, "a class")
    # An id that no record can hold is put aside.
    coco = Coco(tmp_path)
    coco.images += [{"id": "\ud800", "file_name": "1.jpg"}, {"id": "\ud801"}]
    for splits in ({"train": "annotations.json"}, {"train": 0.5, "eval": 0.5}):
        found = quarantine_of(_read(coco.write(), splits=splits), None)
        assert sorted(found) == [("", "malformed_record"), ("\ud800", "malformed_record")]
