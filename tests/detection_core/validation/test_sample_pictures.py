import io

import numpy as np
from PIL import Image
from tensorflow.core.example.example_pb2 import Example

from detection_core.artifacts.pictures import SAMPLE, SMALLEST, list_pictures
from detection_core.data.encode import bytes_feature, serialise_features
from detection_core.validation.labelled_images import LabelledImage
from detection_core.validation.sample_pictures import SamplePictures
from tests.detection_core.validation.pictures import jpeg, natural
from tests.support.dataset_files import subfolder


def labelled(number, boxes, classes, crowd=None, data=None):
    data = jpeg(natural(np.random.default_rng(number)).resize((200, 100))) if data is None else data
    record = serialise_features({"image/encoded": bytes_feature([data])})
    named = {"record": number, "source_id": f"image {number}", "filename": f"{number}.jpg", "sha256": b""}
    return LabelledImage(
        **named,
        **{"height": 100, "width": 200, "features": Example.FromString(record).features.feature},
        boxes=np.asarray(boxes, np.float32).reshape(-1, 4),
        classes=np.asarray(classes, np.int64),
        is_crowd=np.asarray(crowd if crowd is not None else [False] * len(classes)),
    )


def written(samples, folder):
    samples.write(str(folder))
    return list_pictures(str(folder))


def test_every_class_has_pictures_and_images_are_not_repeated_without_need(tmp_path):
    samples = SamplePictures(["common", "rare", "never"])
    for number in range(60):
        classes = [0, 0, 1] if number in (0, 40) else [0]
        samples.add("train", labelled(number, [[0.1, 0.1, 0.4, 0.4]] * len(classes), classes))
    found = [p for p in written(samples, tmp_path) if p.kind == SAMPLE]
    rare = [p.source_id for p in found if p.caption == "rare"]
    assert rare == ["train: image 0", "train: image 40"]
    captions = [p.caption for p in found]
    assert captions.count("common") == 8 and "never" not in captions
    assert {Image.open(p.path).size for p in found} == {(240, 120)}


def test_the_smallest_boxes_are_kept_and_crops_show_them(tmp_path):
    sides = np.random.default_rng(3).permutation(np.linspace(0.02, 0.5, 60))
    samples = SamplePictures(["a"])
    for number, side in enumerate(sides):
        samples.add("eval", labelled(number, [[0.5, 0.5, 0.5 + side, 0.5 + side / 2]], [0]))
    found = [p for p in written(samples, tmp_path) if p.kind == SMALLEST]
    assert [p.caption for p in found] == [f"a, {100 * side:.1f} px" for side in sorted(sides)[:12]]
    below = subfolder(tmp_path, 1)
    grey = np.full((100, 200, 3), 90, np.uint8)
    grey[40:44, 100:104] = 255
    stream = io.BytesIO()
    Image.fromarray(grey).save(stream, "PNG")
    samples = SamplePictures(["dot"])
    samples.add("train", labelled(0, [[0.40, 0.50, 0.44, 0.52]], [0], data=stream.getvalue()))
    (picture,) = [p for p in written(samples, below) if p.kind == SMALLEST]
    pixels = np.asarray(Image.open(picture.path))
    assert pixels.shape == (160, 160, 3)
    assert pixels[77:83, 77:83].min() > 215  # the dot, inside of the frame around it
    assert (pixels[..., 0].astype(int) - pixels[..., 2] > 60).sum() > 50  # the frame


def test_pictures_are_bounded_the_same_every_time_and_not_of_crowds(tmp_path):
    samples = SamplePictures(["a"])
    samples.add("train", labelled(0, [[0.1, 0.1, 0.2, 0.2]], [0], crowd=[True]))
    samples.add("train", labelled(1, [[0.1, 0.1, 0.2, 0.2]], [0], data=b"no image"))
    samples.add("train", labelled(2, np.zeros((0, 4)), []))
    found = written(samples, tmp_path)
    assert [(p.kind, p.source_id) for p in found] == [(SAMPLE, "train: image 0")]
    names = [f"class {i}" for i in range(400)]
    data = jpeg(natural(np.random.default_rng(0)).resize((200, 100)))
    images = [labelled(n, [[0.1, 0.1, 0.6, 0.6]] * 2, [n, n + 200], data=data) for n in range(200)]
    folders = []
    for run in ("one", "two"):
        samples = SamplePictures(names)
        for image in images:
            samples.add("train", image)
        folders.append(written(samples, tmp_path / run))
    one, two = ([(p.kind, p.source_id, p.caption, p.read()) for p in found] for found in folders)
    assert one == two
    assert sum(kind == SAMPLE for kind, *_ in one) == 160 and sum(kind == SMALLEST for kind, *_ in one) == 12
