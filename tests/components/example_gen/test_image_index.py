import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st

from components.example_gen.image_index import ImageIndex
from detection_core.datasets.annotated_images import AnnotatedImage, Rejection

SPLITS = ["eval", "train"]


def _image(image_id, name="a.jpg"):
    return AnnotatedImage(image_id, name, f"/x/{name}", 4, 3, [])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SPLITS), st.sampled_from("abcdefgä") | st.text(max_size=2))))
def test_images_come_by_the_hashes_of_their_ids_and_the_first_of_an_id_stays(added):
    encodable = [(split, i) for split, i in added if i.isprintable()]
    index, first, doubles = ImageIndex(), {}, []
    for number, (split, image_id) in enumerate(encodable):
        image = _image(image_id, f"{number}.jpg")
        index.add(split, image)
        if first.setdefault((split, image_id), image) is not image:
            doubles.append((split, image.filename, first[split, image_id].filename))
    index.reject_doubles()
    for split in SPLITS:
        own = [image for (name, _), image in first.items() if name == split]
        own.sort(key=lambda i: (hashlib.sha256(f"order\0{i.source_id}".encode()).digest()[:8], i.source_id))
        assert list(index.images(split)) == own and len(index.images(split)) == len(own)
        assert [(r.file, r.reason, r.detail) for r in index.rejected(split)] == [
            (file, "duplicate_id", f"the id is that of {before!r}, which comes first")
            for name, file, before in doubles
            if name == split
        ]


def test_rejections_keep_their_order_and_any_text():
    index = ImageIndex()
    noted = [Rejection(f"{n}\udcff.jpg", "\ud800", "empty_image", "ä") for n in range(3)]
    index.reject("train", noted[:2])
    index.reject("eval", noted)
    index.reject("train", noted[2:])
    assert list(index.rejected("train")) == noted and len(index.rejected("train")) == 3
    assert noted[0] in index.rejected("eval") and len(index.rejected("test")) == 0


def test_a_file_s_name_need_not_be_utf_8():
    index = ImageIndex()
    images = [_image("1", "x\udcff.jpg"), _image("1", "y\udcff.jpg")]
    for image in images:
        index.add("train", image)
    index.reject_doubles()
    assert list(index.images("train")) == images[:1] and images[0] in index.images("train")
    [double] = index.rejected("train")
    assert double.file == "y\udcff.jpg" and "x\\udcff.jpg" in double.detail
