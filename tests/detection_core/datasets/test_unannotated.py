from detection_core.datasets import unannotated
from detection_core.datasets.image_files import ImageFiles
from detection_core.errors import ConfigError
from tests.support.cases import refused
from tests.support.dataset_files import write_files


def test_images_without_annotation_are_called_as_with_one_and_count_once(tmp_path):
    names = ("a.jpg", "b.jpg", "b.png", "deep/c.jpg", "d\n.jpg", "e.jpg")
    write_files(tmp_path, dict.fromkeys(names, b"image"))
    available = ImageFiles(str(tmp_path))
    found = unannotated.images_without_annotation(available, {str(tmp_path / "a.jpg")}, ["a", "e"])
    named = {"b": "b.jpg", "b.png": "b.png", "e.jpg": "e.jpg", "deep/c": "deep/c.jpg"}
    assert [(image.source_id, image.filename) for image in found] == list(named.items())
    assert not any(image.objects for image in found)
    below = unannotated.images_without_annotation(available, set(), [], "deep/")
    assert [image.filename for image in below] == ["deep/c.jpg"]
    a, b, c = (unannotated.image_without_objects(name, name, f"/{name}") for name in "abc")
    assert unannotated.left_over([[a, b], [b, c]], [[], ["/a"]]) == [[b], [c]]
    assert all(unannotated.check_unannotated_images(word) == word for word in unannotated.CHOICES)
    message = r"expected one of \['auto', 'background', 'leave_out'\]"
    refused(ConfigError, message, unannotated.check_unannotated_images, "negative")
