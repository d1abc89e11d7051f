"""The benchmark of files."""

import dataclasses

import pytest

from detection_core.artifacts.benchmark import Machine
from detection_core.errors import ConfigError
from detection_core.tasks import file_benchmark as module
from detection_core.tasks.file_benchmark import BenchOptions, bench, tflite_files
from tests.support.edge_files import convolutions


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("files")
    (path / "model_float32.tflite").write_bytes(convolutions(between="reverse"))
    (path / "model_int8.tflite").write_bytes(convolutions(between="reverse", integer=True))
    (path / "labels.txt").write_text("a\n")
    return path


@pytest.fixture(scope="module")
def found(folder):
    return bench([str(folder)], BenchOptions(threads=(1, 2), runs=7))


def test_each_file_is_measured_in_each_setting_and_its_operations_are_counted(found, folder):
    assert [file.path for file in found.files] == [str(p) for p in sorted(folder.glob("*.tflite"))]
    for file in found.files:
        settings = [(t.delegate, t.threads) for t in file.timings]
        assert settings == [("xnnpack", 1), ("xnnpack", 2), ("none", 1), ("none", 2)]
        for timing in file.timings:
            assert timing.runs == 7
            assert timing.min_ms <= timing.p50_ms <= timing.p90_ms <= timing.p99_ms
            assert timing.images_per_second == pytest.approx(1000 / timing.mean_ms)
            assert timing.load_ms > 0 and timing.first_ms > 0
    floating, integer = found.files
    assert (floating.integer, integer.integer) == (False, True)
    kinds = {kind.name: (kind.count, kind.delegated) for kind in floating.operators}
    assert kinds == {"CONV_2D": (2, 2), "REVERSE_V2": (1, 0)} and floating.partitions == [1, 1]
    assert all(kind.milliseconds > 0 for kind in (*floating.operators, *integer.operators))


def test_an_integer_file_that_is_slower_is_explained_by_operation_and_processor(found):
    def timed(file, p50, conv):
        timings = [dataclasses.replace(t, p50_ms=p50) for t in file.timings]
        operators = [
            dataclasses.replace(k, milliseconds=conv if k.name == "CONV_2D" else 0.1) for k in file.operators
        ]
        return dataclasses.replace(file, timings=timings, operators=operators)

    machine = Machine(processor="p", architecture="x86_64", cores=2, int8_dot_product=False, litert="2")
    floating, integer = timed(found.files[0], 2.7, 1.1), timed(found.files[1], 3.1, 1.6)
    (note,) = module._notes(machine, [floating, integer])
    assert "model_int8.tflite takes 3.10 ms and model_float32.tflite 2.70 ms" in note
    assert "most of it is CONV_2D, 1.60 against 1.10 ms" in note and "VNNI" in note
    (note,) = module._notes(dataclasses.replace(machine, int8_dot_product=True), [floating, integer])
    assert "VNNI" not in note
    assert module._notes(machine, [timed(found.files[0], 3.2, 1.1), integer]) == []


def test_files_are_named_once_and_what_cannot_be_measured_is_refused(folder, tmp_path):
    path = str(folder / "model_int8.tflite")
    assert tflite_files([path, str(folder), path]) == [path, str(folder / "model_float32.tflite")]
    for paths, message in (([str(tmp_path)], "none in it"), ([str(tmp_path / "x")], "found nothing")):
        with pytest.raises(ConfigError, match=message):
            tflite_files(paths)
    for name, wrong, found in (
        ("threads", (0,), r"\[0\]"),
        ("threads", (), r"\[\]"),
        ("delegates", ("gpu",), "gpu"),
        ("delegates", (), "none"),
        ("runs", 0, "0"),
    ):
        with pytest.raises(ConfigError, match=f"{name}: expected .*, found {found}$"):
            BenchOptions(**{name: wrong})
