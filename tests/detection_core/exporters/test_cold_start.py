import sys

import pytest

from detection_core.errors import ModelError
from detection_core.exporters.cold_start import measure_cold_start
from tests.support.edge_files import convolutions
from tests.support.python_traps import set_traps


def test_loading_and_the_first_inference_are_told_apart_and_memory_grows_with_the_image(tmp_path):
    found = {}
    for side in (16, 512):
        path = tmp_path / f"{side}.tflite"
        path.write_bytes(convolutions(side=side))
        found[side] = measure_cold_start(str(path), threads=1, delegate="none")
    assert all(one.load_ms > 0 and one.first_ms > 0 for one in found.values())
    assert found[512].first_ms > found[16].first_ms
    if sys.platform == "linux":
        # Eight float channels of 512 x 512, before and after; what the tests hold themselves does not count.
        assert 8e6 < found[512].peak_memory_bytes < 400e6
        assert found[16].peak_memory_bytes < found[512].peak_memory_bytes


def test_a_file_that_does_not_run_is_named(tmp_path, monkeypatch):
    executed = set_traps(tmp_path / "started_in")
    monkeypatch.chdir(tmp_path / "started_in")
    path = tmp_path / "none.tflite"
    path.write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"none\.tflite: expected a file that LiteRT runs"):
        measure_cold_start(str(path), threads=1, delegate="none")
    assert not executed.exists()
