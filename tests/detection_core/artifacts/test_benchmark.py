from detection_core.artifacts.benchmark import BENCHMARK
from tests.support.artifact_samples import benchmark


def test_it_is_read_as_written(tmp_path):
    BENCHMARK.write(str(tmp_path), benchmark())
    assert BENCHMARK.read(str(tmp_path)) == benchmark()
    assert benchmark().files[0].operator_milliseconds() == {"CONV_2D": 1.25}
