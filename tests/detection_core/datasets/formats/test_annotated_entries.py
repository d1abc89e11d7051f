from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.formats.annotated_entries import read_entries
from detection_core.datasets.formats.annotation_files import Source
from detection_core.datasets.shapes import make_object
from tests.support.dataset_files import picture, reasons, whole


def test_images_that_no_entry_is_about_are_known_when_all_was_read(tmp_path):
    for name in "abcd":
        (tmp_path / f"{name}.jpg").write_bytes(picture())

    def objects_of(entry):
        if entry["name"] == "c.jpg":
            raise Rejected("malformed_annotation", "no box")
        return [make_object("cat", (0, 0, 1, 1), "object 1")]

    entries = [{"name": "/home/me/a.jpg"}, {"name": "b"}, {"name": "c.jpg"}, 7, {"name": "\n"}]
    source = Source(annotations=str(tmp_path / "all.json"), images=str(tmp_path))
    found = read_entries([source], lambda path: entries, lambda entry: entry["name"], objects_of)
    assert not found.categories
    found = whole(found)
    assert [image.filename for image in found.images] == ["a.jpg", "b.jpg"] and found.categories == {"cat": 0}
    assert reasons(found) == ["malformed_annotation", "malformed_record", "malformed_record"]
    assert {r.file for r in found.rejected} == {"all.json"}
    assert [image.filename for image in found.unannotated] == ["d.jpg"]
