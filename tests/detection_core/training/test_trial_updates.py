"""Which errors are of the memory, and which numbers of parts are tried."""

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from detection_core.training.loop_options import TrainOptions
from detection_core.training.trial_updates import equal_parts, is_out_of_memory, more_parts, too_large
from tests.support.cases import cases


@given(parts=st.integers(1, 300), images=st.integers(1, 300))
def test_parts_are_equal_and_at_least_double(parts, images):
    numbers = list(more_parts(parts, images))
    assert all(images % number == 0 for number in numbers)
    for before, after in zip([parts, *numbers], numbers, strict=False):
        assert after >= 2 * before or after == images
        assert not any(images % n == 0 for n in range(2 * before, after))
    assert (numbers[-1:] or [images])[0] == images


@cases((1, 8, 1), (3, 8, 4), (5, 8, 8), (9, 8, 8), (2, 7, 7))
def test_a_number_of_another_machine_becomes_one_that_divides(*, parts, images, found):
    assert equal_parts(parts, images) == found


def test_what_tensorflow_raises_is_the_memory_and_other_faults_are_not():
    with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        too_many = tf.constant(1 << 46, tf.int64)
        tf.function(lambda count: tf.random.stateless_uniform([count], [0, 0]))(too_many)
    assert is_out_of_memory(caught.value)
    options = TrainOptions(num_steps=1, batch_size=8, gradient_accumulation_steps=2)
    message = str(too_large(caught.value, options))
    assert "found 8 images in 2 parts, which do not fit (OOM when allocating tensor" in message
    assert "\n" not in message
    # What TensorFlow says of ENOSPC has the same class: see `IOError` in its `error_reporting`.
    full = tf.errors.ResourceExhaustedError(None, None, "/work/ckpt-3.data; No space left on device")
    assert not is_out_of_memory(full)
    many = tf.errors.ResourceExhaustedError(None, None, "/data/a.tfrecord; Too many open files")
    assert not is_out_of_memory(many)
    assert is_out_of_memory(MemoryError()) and not is_out_of_memory(RuntimeError("OOM"))
    text = "No algorithm worked!  Error messages:\n  UNKNOWN: CUDNN_STATUS_EXECUTION_FAILED"
    assert not is_out_of_memory(tf.errors.NotFoundError(None, None, text))
    assert not is_out_of_memory(tf.errors.NotFoundError(None, None, "shard-3.tfrecord; No such file"))


CUDNN = "Profiling failure on CUDNN engine eng11{}: UNKNOWN: CUDNN_STATUS_ALLOC_FAILED\nin cuda_dnn.cc(5333)"


@cases(
    (tf.errors.NotFoundError, f"No algorithm worked!  Error messages:\n  {CUDNN}", "STATUS_ALLOC_FAILED"),
    (tf.errors.InternalError, "CUDA_ERROR_OUT_OF_MEMORY: out of memory", "OUT_OF_MEMORY: out of memory"),
)
def test_a_library_of_cuda_without_memory_to_work_in_is_the_memory(*, kind, text, reason):
    error = kind(None, None, text)
    assert is_out_of_memory(error)
    assert f"({reason})" in str(too_large(error, TrainOptions(num_steps=1, batch_size=8)))
