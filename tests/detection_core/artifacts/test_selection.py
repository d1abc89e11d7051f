"""The ranking of images, read back from its file."""

from detection_core.artifacts.selection import SELECTION, RankedImage, Selection


def test_a_ranking_is_read_back_with_its_parts(tmp_path):
    chosen = RankedImage(image="a.jpg", rank=1, uncertainty=2.5, reason="cat", distance=0.25)
    other, broken = RankedImage(image="b.jpg", alike="a.jpg"), RankedImage(image="c.jpg", error="no image")
    made = Selection(
        model="m 1", labelled_images=3, class_weights={"cat": 1.5}, images=[chosen, other, broken]
    )
    SELECTION.write(str(tmp_path), made)
    assert SELECTION.read(str(tmp_path)) == made
    assert made.chosen == [chosen]
