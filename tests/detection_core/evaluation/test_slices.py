"""Parts of a split by image size and by features in a CSV file."""

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts.evaluation import MAP, slice_metric
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.coco_matching import MatchTable, join_tables, match_images
from detection_core.evaluation.coco_metrics import BOXES, SHAPE_KINDS, evaluate_coco
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.slices import IMAGE_SIZE, cut, load_features, slice_map, slice_metrics
from tests.support.cases import cases, refused
from tests.support.evaluated_images import NAMES, random_images, shaped_images


def split_of(images, **fields):
    return EvaluatedSplit(images=tuple(images), class_names=NAMES, **fields)


def assert_same_table(one: MatchTable, other: MatchTable):
    for field in dataclasses.fields(MatchTable):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), field.name)


@given(places=st.sets(st.integers(0, 39)), seed=st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_tables_of_parts_join_to_that_of_the_whole(places, seed):
    images = random_images(seed)
    whole = split_of(images)
    table = whole.table(BOXES)
    parts = []
    for chosen in (np.array(sorted(places), int), np.array(sorted(set(range(40)) - places), int)):
        part = whole.part(chosen)
        assert_same_table(part.tables["bbox"], match_images(part.images, NAMES, BOXES))
        own = part.table(BOXES)
        # Number the images as in the whole again.
        numbers = {name: chosen[getattr(own, name)] for name in ("image", "object_image")}
        parts.append(dataclasses.replace(own, **numbers))
    assert_same_table(join_tables(parts), table)


def test_a_slice_is_measured_as_if_its_images_were_the_split(tmp_path):
    images, kinds = shaped_images(2), [BOXES, SHAPE_KINDS["coco_mask_metrics"]]
    path = tmp_path / "slices.csv"
    rows = [f"{image.truth.source_id}, {i % 3 or ''}," for i, image in enumerate(images)]
    path.write_text("\n".join(["source_id, third, empty", *rows, "another image,4,x"]))
    features = load_features(str(path))
    values = {IMAGE_SIZE: ("small", "medium", "large"), "third": ("1", "2", "4"), "empty": ("x",)}
    assert [(f.name, f.values) for f in features] == list(values.items())
    split, names = split_of(images), slice_metrics(features, kinds)
    assert len(names) == 14 and "DetectionMasks_PerformanceBySlice/mAP/third=4" in names
    assert split.coco.metrics() == evaluate_coco(images, NAMES).metrics()
    found = [(one, parts["own"]) for one, parts in cut({"own": split}, features[:2])]
    sizes, thirds = [(IMAGE_SIZE, size) for size in ("small", "medium")], [("third", n) for n in "12"]
    assert [(one.feature, one.value) for one, _ in found] == sizes + thirds
    for one, part in found:
        if one.feature == "third":
            chosen = [image for i, image in enumerate(images) if i % 3 == int(one.value)]
        else:
            pixels = [image.truth.height * image.truth.width for image in images]
            small = one.value == "small"
            chosen = [i for i, p in zip(images, pixels, strict=True) if (p < 512 * 512) == small]
        metrics = {kind.map_name: evaluate_coco(chosen, NAMES, kind).metrics() for kind in kinds}
        expected = {slice_metric(one.feature, one.value, name): all_[name] for name, all_ in metrics.items()}
        assert slice_map(part, one, kinds) == expected and set(expected) <= set(names)
        counts = len(chosen), sum(int((~image.truth.is_crowd).sum()) for image in chosen)
        assert (one.images, one.objects) == counts
    message = "images with a value of empty, found none.*'image 0'"
    refused(DataError, message, list, cut({"": split}, features))


def test_parts_keep_what_counts():
    images = random_images(1)
    truths = [dataclasses.replace(i.truth, labelled=np.array([0], np.int32)) for i in images]
    labelled = [dataclasses.replace(i, truth=truth) for i, truth in zip(images, truths, strict=True)]
    split = split_of(labelled, labelled_only=True)
    split.table(BOXES)
    part = split.part(np.arange(40))
    assert part.coco_of(BOXES).metrics()[MAP] == split.coco.metrics()[MAP]
    assert part.coco.metrics()[MAP] != evaluate_coco(images, NAMES).metrics()[MAP]
    assert dataclasses.replace(split, labelled_only=False).tables == {}, "other options match again"


def test_the_largest_images_and_no_features():
    assert load_features("") == ()
    (size,) = load_features(IMAGE_SIZE)
    truth = random_images(0)[0].truth
    sizes = {511: "small", 512: "medium", 1023: "medium", 1024: "large", 9000: "large"}
    for side, expected in sizes.items():
        assert size.value_of(dataclasses.replace(truth, height=side, width=side)) == expected


COLUMNS = "expected source_id and different names of columns, found"


@cases(
    ("", COLUMNS),
    ("image,weather\na,sun", COLUMNS),
    ("source_id,a,a\nx,1,2", COLUMNS),
    ("source_id,\nx,1", COLUMNS),
    ("source_id,a\nx,1\nx,2", "expected one row of 2 cells for each image, found 2 rows for 1 images"),
    ("source_id,a\nx,1,2", "expected one row of 2 cells"),
    ("source_id,a\n" + "\n".join(f"{i},{i}" for i in range(101)), "at most 100 values of a, found 101"),
    ('source_id,a\nx,"1' + "0" * 200_000, "expected CSV, found another text"),
)
def test_a_file_that_says_nothing_clear_or_is_missing_is_refused(tmp_path, *, text, message):
    path = tmp_path / "slices.csv"
    refused(ConfigError, "CSV file of slices", load_features, str(path))
    path.write_text(text)
    refused(ConfigError, f"slices.csv: .*{message}", load_features, str(path))
