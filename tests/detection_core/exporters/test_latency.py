"""Timing of files."""

from __future__ import annotations

import tensorflow as tf

from detection_core.exporters.latency import measure_latency


def multiplications(path, count: int) -> str:
    """A file that multiplies a matrix with itself `count` times."""

    def serve(x):
        for _ in range(count):
            x = tf.tanh(tf.matmul(x, x))
        return x

    function = tf.function(serve).get_concrete_function(tf.TensorSpec([400, 400], tf.float32))
    path.write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module()).convert())
    return str(path)


def test_more_work_takes_longer_and_the_unit_is_milliseconds(tmp_path):
    little = measure_latency(multiplications(tmp_path / "a.tflite", 1), threads=1, runs=7)
    much = measure_latency(multiplications(tmp_path / "b.tflite", 30), threads=1, runs=7)
    # 400**3 multiplications take from a tenth of a millisecond to some tens, whatever the machine.
    assert 0.05 < little < 500 and much > 5 * little
