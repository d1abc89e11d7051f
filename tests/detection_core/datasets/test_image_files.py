import unicodedata

import pytest

from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.image_files import ImageFiles
from tests.support.cases import cases, refused
from tests.support.dataset_files import write_files

COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "grün.jpg") for form in ("NFC", "NFD"))


@pytest.fixture
def images(tmp_path):
    names = ("a.jpg", "deep/b.JPG", "deep/c.jpg", "other/c.jpg", "v1.2.png", DECOMPOSED, "back\\slash.png")
    write_files(tmp_path, dict.fromkeys((*names, "notes.txt"), b""))
    return ImageFiles(str(tmp_path))


# Two files are called c.jpg: the one beside the annotation is meant, and none without it. A dot in a name
# that no file has does not make it another's.
@cases(
    ("a.jpg", "", "a.jpg"), ("./deep/../a.jpg", "", "a.jpg"), ("b.JPG", "", "deep/b.JPG"),
    ("b.jpeg", "", "deep/b.JPG"), ("b", "", "deep/b.JPG"), ("C:\\Users\\me\\b.jpg", "", "deep/b.JPG"),
    ("elsewhere/a.png", "", "a.jpg"), ("back\\slash.png", "", "back\\slash.png"), ("v1.2", "", "v1.2.png"),
    (COMPOSED, "", DECOMPOSED), ("unknown.jpg", "deep/b", "deep/b.JPG"), ("c.jpg", "other/x", "other/c.jpg"),
    ("c.jpg", "", "c.jpg"), ("a.final", "", "a.final"), ("notes.txt", "", "notes.txt"),
    # Names of another machine are found by their longest tail.
    ("../a.jpg", None, "a.jpg"), ("/home/me/a.jpg", None, "a.jpg"), ("D:\\cats\\a.jpg", None, "a.jpg"),
    ("\\\\server\\share\\a.jpg", None, "a.jpg"), ("s3://bucket/a.jpg", None, "a.jpg"),
    ("deep/../../a.jpg", None, "a.jpg"), ("/home/me/other/c.jpg", None, "other/c.jpg"),
    ("E:/deep/c.png", None, "deep/c.jpg"),
)  # fmt: skip
def test_a_name_finds_the_one_file_that_is_meant(images, *, name, beside, found):
    assert images.find(name, beside or "") == found and (beside is not None or images.has(name))


def test_of_equal_tails_the_one_beside_is_meant_and_a_missing_folder_has_none(images, tmp_path):
    outside = ("../x.jpg", "/etc/passwd", "C:\\x.jpg", "s3://bucket/x.jpg", "deep/../../x.jpg", "")
    for name in (*outside, "/home/me/c.jpg"):
        refused(Rejected, "leaves the image folder", images.find, name, "unknown")
    assert images.find("/home/me/c.jpg", "deep/x") == "deep/c.jpg"
    assert images.paths_like("c") == images.paths_like("c.jpg") != images.paths_like("deep/c")
    images = ImageFiles(str(tmp_path / "none"))
    assert list(images) == [] and images.find("a.jpg") == "a.jpg"
    assert images.path("a.jpg") == str(tmp_path / "none" / "a.jpg")
