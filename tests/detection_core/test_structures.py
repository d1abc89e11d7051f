"""The named types in which tensors travel through the core."""

import dataclasses
import typing

import numpy as np
import tensorflow as tf

from detection_core import structures
from detection_core.ops.objects import new_truth
from detection_core.structures import Batch, Images, Instances, Sample
from tests.support.cases import cases

TENSOR_TYPES = [
    value
    for value in vars(structures).values()
    if isinstance(value, type) and issubclass(value, tuple) and value.__module__ == structures.__name__
]


@cases(*TENSOR_TYPES)
def test_what_crosses_a_graph_has_no_field_that_may_be_missing(*, cls):
    for name, hint in typing.get_type_hints(cls).items():
        assert hint is not type(None) and type(None) not in typing.get_args(hint), name
    assert not cls._field_defaults


def _with_checks(batch):
    assert isinstance(batch, Batch), "inside a graph too"
    return batch


def test_a_batch_passes_through_tf_data_as_it_is():
    truth = new_truth(tf.constant([[0.0, 0.0, 0.5, 1.0]]), tf.constant([1]))
    images = Images(tf.zeros([2, 2, 3]), tf.constant([2, 2]), tf.constant([4, 4]), tf.constant("a"))
    element = Batch(images, truth)
    (found,) = tf.data.Dataset.from_tensors(element).map(_with_checks)
    assert isinstance(found, Batch) and isinstance(found.images, Images)
    tf.nest.map_structure(tf.debugging.assert_equal, found.truth._replace(area=truth.area), truth)


def test_what_is_not_known_of_objects_has_a_value_and_rows_are_taken_of_every_field():
    boxes = np.array([[0, 0, 1, 1], [0, 0, 0.5, 0.5], [0, 0, 0.1, 0.1]], np.float32)
    known = {"boxes": boxes, "classes": np.arange(3), "area": np.array([7.0, 8.0, 9.0], np.float32)}
    found = Instances(source_id="a", height=4, width=5, labelled=np.array([2]), **known)
    assert [len(getattr(found, name)) for name in ("scores", "is_crowd", "masks", "keypoints")] == [3] * 4
    assert found.scores.tolist() == [1.0] * 3 and not found.has_masks and found.keypoints.shape == (3, 0, 2)
    for rows in (np.array([False, True, True]), np.array([1, 2])):
        part = found.take(rows)
        assert (part.source_id, part.height, part.width, part.labelled.tolist()) == ("a", 4, 5, [2])
        for field in dataclasses.fields(Instances):
            value = getattr(found, field.name)
            if isinstance(value, np.ndarray) and field.name != "labelled":
                np.testing.assert_array_equal(getattr(part, field.name), value[1:], err_msg=field.name)
    nothing = found.take(np.zeros(3, bool))
    assert nothing.area.shape == (0,) and not nothing.has_masks


def test_fields_are_documented_with_their_shapes():
    for cls in (*TENSOR_TYPES, Instances):
        names = [f.name for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else cls._fields
        for name in names if cls is not Batch else ():
            assert f"    {name}: " in cls.__doc__, f"{cls.__name__}.{name}"
    assert Sample._fields == ("image", "truth", "source_id")
