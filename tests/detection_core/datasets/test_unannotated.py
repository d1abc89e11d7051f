import pytest

from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.unannotated import (
    CHOICES,
    check_unannotated_images,
    image_without_objects,
    images_without_annotation,
    left_over,
)
from detection_core.errors import ConfigError


def test_an_image_without_annotation_is_called_as_one_with_it_would_be(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("a.jpg", "b.jpg", "b.png", "deep/c.jpg", "d\n.jpg", "e.jpg"):
        (tmp_path / name).write_bytes(b"image")
    available = ImageFiles(str(tmp_path))
    found = images_without_annotation(available, {str(tmp_path / "a.jpg")}, ["a", "e"])
    assert [(image.source_id, image.filename) for image in found] == [
        ("b", "b.jpg"), ("b.png", "b.png"), ("e.jpg", "e.jpg"), ("deep/c", "deep/c.jpg")
    ]  # fmt: skip
    assert not any(image.objects for image in found)
    below = images_without_annotation(available, set(), [], "deep/")
    assert [image.filename for image in below] == ["deep/c.jpg"]


def test_an_image_that_another_split_annotates_is_annotated_and_one_that_two_share_counts_once():
    a, b, c = (image_without_objects(name, name, f"/{name}") for name in "abc")
    assert left_over([[a, b], [b, c]], [[], ["/a"]]) == [[b], [c]]


def test_another_word_is_refused():
    assert all(check_unannotated_images(word) == word for word in CHOICES)
    with pytest.raises(ConfigError, match=r"expected one of \['auto', 'background', 'leave_out'\]"):
        check_unannotated_images("negative")
