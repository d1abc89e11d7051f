"""Reading TensorFlow Lite metadata; writing it is tested beside the writer."""

from __future__ import annotations

import functools

import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.tflite_metadata import read_description


@functools.cache
def bare_file() -> bytes:
    function = tf.function(lambda x: x + 1.0).get_concrete_function(tf.TensorSpec([1], tf.float32))
    return bytes(tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module()).convert())


def test_a_file_without_metadata_is_refused_with_its_path():
    with pytest.raises(ModelError, match=r"bare.tflite: expected metadata"):
        read_description(bare_file(), where="bare.tflite")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04zip archive", b"0123TFL"])
def test_another_kind_of_file_is_refused(content):
    with pytest.raises(ModelError, match="expected a TensorFlow Lite file"):
        read_description(content)
