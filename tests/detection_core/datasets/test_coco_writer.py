import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as coco_mask

from detection_core.data.label_map import label_map_from_names
from detection_core.datasets import annotated_images
from detection_core.datasets.annotated_images import AnnotatedImage, MaskFile, Polygons, Rejected, RunLengths
from detection_core.datasets.coco_writer import BESIDE, open_coco
from detection_core.datasets.formats import coco
from detection_core.datasets.shapes import make_object
from tests.support.cases import cases, refused

LABELS = label_map_from_names(["cat", "dog"])
POINTS = {"dog": ["nose", "tail"]}

_side = st.floats(0, 500, allow_nan=False)
_rings = st.lists(_side, min_size=6, max_size=8).filter(lambda ring: not len(ring) % 2)
_masks = st.one_of(
    st.lists(_rings, min_size=1, max_size=2).map(lambda rings: Polygons([tuple(ring) for ring in rings])),
    st.sampled_from([None, RunLengths(2, 3, [1, 2, 3]), RunLengths(2, 3, "123")]),
)
_points = st.none() | st.lists(st.tuples(_side, _side, st.integers(0, 2)), min_size=2, max_size=2)


def _make(name, corner, size, mask, points, crowd, area):
    box = (*corner, corner[0] + size[0], corner[1] + size[1])
    made = make_object(name, box, "", mask, points if name == "dog" else None)
    return made._replace(crowd=crowd, area=area)


_names, _corners = st.sampled_from(["cat", "dog"]), st.tuples(*[st.integers(0, 99)] * 2)
_sizes, _areas = st.tuples(*[st.integers(1, 99)] * 2), st.floats(0.5, 1e6)
_objects = st.builds(_make, _names, _corners, _sizes, _masks, _points, st.integers(0, 1), _areas)
_files = st.text("ab \u00fc\u0301'\"\\", min_size=1)
_images = st.lists(st.tuples(_files, st.lists(_objects, max_size=3)), max_size=4)


@settings(deadline=None, max_examples=60)
@given(_images)
def test_what_is_written_is_read_back(tmp_path_factory, images):
    root = tmp_path_factory.mktemp("coco")
    drawn = [(str(number), *image) for number, image in enumerate(images, start=1)]
    written = [AnnotatedImage(n, f"{n}{name}.jpg", "", 640, 480, objects) for n, name, objects in drawn]
    with open_coco(str(root / "annotations.json"), LABELS, POINTS) as writer:
        for image in written:
            writer.add(image, image.filename, (image.width, image.height))
    found = coco.read(str(root), "annotations.json")
    assert not found.rejected and found.categories == {"cat": 1, "dog": 2} and found.keypoint_names == POINTS
    assert [_plain(image) for image in found.images] == [_plain(image) for image in written]


def _plain(image):
    def plain(item):
        mask = [list(ring) for ring in item.mask.rings] if isinstance(item.mask, Polygons) else item.mask
        return item._replace(label="", box=tuple(round(at, 6) for at in item.box), mask=mask)

    return image._replace(path="", objects=[plain(item) for item in image.objects])


def _write(path, image):
    with open_coco(str(path), LABELS, {}) as writer:
        writer.add(image, "a.jpg", (40, 30))
    return json.loads(path.read_text())


def test_fields_that_coco_lacks_are_kept_and_mask_files_become_run_lengths(tmp_path):
    values = {"difficult": 1, "truncated": 0, "pose": "Left", "occluded": 1, "group_of": 0, "depiction": 1,
              "confidence": 0.5, "weight": 2.0}  # fmt: skip
    item = make_object("cat", (1, 2, 3, 4), "")._replace(**values)
    image = AnnotatedImage("a", "a.jpg", "", 40, 30, [item], [annotated_images.ImageLabel("dog", 0.25)])
    content = _write(tmp_path / "a.json", image)
    (entry,) = content["annotations"]
    assert entry["attributes"] | entry["detflow"] == values
    assert set(values) == {name for names in BESIDE.values() for name in names}
    again = next(iter(coco.read(str(tmp_path), "a.json").images))
    (read,) = again.objects
    assert again.labels == image.labels
    assert {name: getattr(read, name) for name in values} == values
    assert content["images"][0]["detflow"] == {"labels": [{"category_id": 2, "confidence": 0.25}]}
    Image.new("L", (20, 15), 255).save(tmp_path / "mask.png")
    item = make_object("cat", (1, 2, 3, 4), "", MaskFile(str(tmp_path / "mask.png")))
    content = _write(tmp_path / "a.json", AnnotatedImage("a", "a.jpg", "", 40, 30, [item]))
    segmentation = content["annotations"][0]["segmentation"]
    assert coco_mask.decode(coco_mask.frPyObjects(segmentation, 30, 40)).all()
    assert segmentation["size"] == [30, 40]


@cases(
    make_object("cat", (1, 2, math.nan, 4), ""),
    make_object("cat", (1, 2, 3, 4), "", Polygons([[1, math.inf]])),
    make_object("cat", (1, 2, 3, 4), "", MaskFile("/none.png")),
)  # fmt: skip
def test_what_json_cannot_hold_is_put_aside_and_leaves_no_trace(tmp_path, *, item):
    bad, good = (AnnotatedImage("a", "a.jpg", "", 40, 30, objects) for objects in ([item], []))
    with open_coco(str(tmp_path / "a.json"), LABELS, {}) as writer:
        refused(Rejected, "", writer.add, bad, "a.jpg", (40, 30))
        writer.add(good, "a.jpg", (40, 30))
    content = json.loads((tmp_path / "a.json").read_text())
    assert len(content["images"]) == 1 and content["annotations"] == []
