import numpy as np
import tensorflow as tf

from detection_core.exporters.delegation import DELEGATES
from detection_core.exporters.latency import fill_inputs, measure_latency, time_inferences
from tests.support.edge_files import converted


def multiplications(path, count: int) -> str:
    """A file that multiplies a matrix with itself `count` times."""

    def serve(x):
        for _ in range(count):
            x = tf.tanh(tf.matmul(x, x))
        return x

    path.write_bytes(converted(serve, [400, 400]))
    return str(path)


def test_inputs_of_integer_files_are_noise_over_all_codes():
    seen = {}

    class Recorder:
        def get_input_details(self):
            kinds = enumerate((np.uint8, np.int8, np.float32))
            return [{"index": i, "shape": [1, 64, 64, 3], "dtype": kind} for i, kind in kinds]

        def set_tensor(self, index, value):
            seen[index] = value

    fill_inputs(Recorder())
    ranges = [(v.dtype.name, int(v.min()), int(v.max())) for v in (seen[0], seen[1])]
    assert ranges == [("uint8", 0, 254), ("int8", -128, 126)]
    assert seen[2].dtype == np.float32 and -1 <= seen[2].min() < -0.99 and 0.99 < seen[2].max() <= 1


def test_every_run_is_timed_more_work_takes_longer_and_the_unit_is_milliseconds(tmp_path):
    little = measure_latency(multiplications(tmp_path / "a.tflite", 1), threads=1, runs=7)
    much = measure_latency(multiplications(tmp_path / "b.tflite", 30), threads=1, runs=7)
    for delegate in DELEGATES:
        content = (tmp_path / "a.tflite").read_bytes()
        assert len(time_inferences(content, threads=1, delegate=delegate, runs=5)) == 5
    # 400**3 multiplications take from a tenth of a millisecond to some tens, whatever the machine.
    assert 0.05 < little < 500 and much > 5 * little
