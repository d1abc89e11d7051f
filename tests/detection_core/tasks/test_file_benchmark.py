"""What files and SavedModels cost: timings, bounds, and images for calibration; files of google/automl."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts import detector as layout
from detection_core.artifacts.benchmark import Machine
from detection_core.builders.datasets import representative_pixels
from detection_core.config.automl.hparams import load_hyperparameters
from detection_core.config.label_map_file import load_label_map
from detection_core.data.resize import AutomlResizer
from detection_core.errors import ConfigError, ModelError
from detection_core.evaluation.served_file import ServedFile
from detection_core.evaluation.tflite_runner import TFLiteRunner
from detection_core.tasks import file_benchmark as module
from detection_core.tasks.exporting.parity import check_limits, exceeded_limits, measure_memory
from detection_core.tasks.file_benchmark import BenchOptions, bench, tflite_files
from detection_core.tasks.serving_benchmark import ServingBenchOptions, bench_saved_models
from detection_core.tasks.serving_driver import ServingDriver
from tests.support.blobs import BlobDetector, save
from tests.support.cases import refused
from tests.support.detectors import pointed, trained
from tests.support.edge_files import convolutions
from tests.support.tiny_files import float_file

COST = {"size_bytes": 4_000_000, "latency_ms": {"1": 12.0, "2": 7.0}, "peak_memory_bytes": 30_000_000}
FAST = ServingBenchOptions(batch_sizes=(1, 4), runs=5, image_size=(40, 50))
PARAMS = {"image_size": 32, "mean_rgb": 127.0, "stddev_rgb": 128.0}
IMAGE = np.random.default_rng(2).integers(0, 256, (20, 40, 3)).astype(np.uint8)


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
            assert timing.runs == 7 and timing.min_ms <= timing.p50_ms <= timing.p90_ms <= timing.p99_ms
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
        times = {"CONV_2D": conv}
        operators = [dataclasses.replace(k, milliseconds=times.get(k.name, 0.1)) for k in file.operators]
        return dataclasses.replace(file, timings=timings, operators=operators)

    machine = Machine(processor="p", architecture="x86_64", cores=2, int8_dot_product=False, litert="2")
    floating, integer = timed(found.files[0], 2.7, 1.1), timed(found.files[1], 3.1, 1.6)
    (note,) = module._notes(machine, [floating, integer])
    assert "model_int8.tflite takes 3.10 ms and model_float32.tflite 2.70 ms" in note
    assert "most of it is CONV_2D, 1.60 against 1.10 ms" in note and "VNNI" in note
    (note,) = module._notes(dataclasses.replace(machine, int8_dot_product=True), [floating, integer])
    assert "VNNI" not in note and module._notes(machine, [timed(found.files[0], 3.2, 1.1), integer]) == []


def test_files_are_named_once_and_what_cannot_be_measured_is_refused(folder, tmp_path):
    path = str(folder / "model_int8.tflite")
    assert tflite_files([path, str(folder), path]) == [path, str(folder / "model_float32.tflite")]
    for paths, message in (([str(tmp_path)], "none in it"), ([str(tmp_path / "x")], "found nothing")):
        refused(ConfigError, message, tflite_files, paths)
    for name, wrong, found in (
        ("threads", (0,), r"\[0\]"), ("threads", (), r"\[\]"), ("delegates", ("gpu",), "gpu"),
        ("delegates", (), "none"), ("runs", 0, "0"),
    ):  # fmt: skip
        refused(ConfigError, f"{name}: expected .*, found {found}$", BenchOptions, **{name: wrong})


def test_each_bound_that_is_exceeded_is_a_clause_and_those_that_mean_nothing_are_refused():
    both = ["latency_ms 12 is more than 8", "memory_mb 30 is more than 20.5"]
    for limits, clauses in (
        ({}, []), ({"size_mb": 4, "latency_ms": 12, "memory_mb": 30}, []),
        ({"size_mb": 3.9}, ["size_mb 4 is more than 3.9"]), ({"latency_ms": 8, "memory_mb": 20.5}, both),
    ):  # fmt: skip
        assert exceeded_limits(limits, **COST) == clauses
    unknown = exceeded_limits({"latency_ms": 1, "memory_mb": 1}, size_bytes=1, latency_ms={})
    assert [clause.split()[0] for clause in unknown] == ["latency_ms", "memory_mb"]
    assert all("could not be measured" in clause for clause in unknown)
    number = "limits.float32.size_mb: expected a number above 0"
    for limits, message in (
        ({"int8": {"size_mb": 1}}, "limits: expected limits of files that are made"),
        ({"float32": {"bytes": 1}}, "limits.float32: expected some of size_mb, latency_ms, memory_mb"),
        ({"float32": {"size_mb": 0}}, number),
        ({"float32": {"size_mb": "4"}}, number),
        ({"float32": {"size_mb": float("nan")}}, number),
    ):
        refused(ConfigError, message, check_limits, limits, ("float32",))


def test_memory_of_a_file_is_measured(tmp_path):
    (tmp_path / "m.tflite").write_bytes(convolutions(side=256))
    assert 1e6 < measure_memory(str(tmp_path / "m.tflite")) < 200e6


def test_each_size_of_a_batch_is_a_timing_that_adds_up_and_a_model_of_one_image_takes_one(tmp_path):
    timings = bench_saved_models([layout.serving_dir(str(trained("plain") / "model"))], FAST)
    assert [t.batch_size for t in timings] == [1, 4]
    for timing in timings:
        assert 0 < timing.p50_ms <= timing.p90_ms <= timing.p99_ms and timing.load_ms > 0 and timing.runs == 5
        # The mean lies between the least and the most, about which the percentiles say enough.
        assert timing.images_per_second < 1000 * timing.batch_size / (timing.p50_ms / 5)
    path = save(BlobDetector(), tmp_path)
    assert [t.batch_size for t in bench_saved_models([path], FAST)] == [1]
    with pytest.raises(ConfigError, match="expected the batch size 1, which the model takes, found"):
        bench_saved_models([path], dataclasses.replace(FAST, batch_sizes=(8,)))
    for changes in ({"batch_sizes": ()}, {"batch_sizes": (0,)}, {"runs": 0}, {"image_size": (0, 4)}):
        refused(ConfigError, "expected batches, runs and image sides from 1", ServingBenchOptions, **changes)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "model.tflite"
    path.write_bytes(float_file())
    return str(path)


def test_a_file_of_theirs_is_run_as_theirs_by_its_hyper_parameters(path):
    names = {"label_map": {1: "a", 2: "b"}}
    driver = ServingDriver.create("_", False, path, "efficientdet-lite0", model_params=PARAMS | names)
    boxes, scores, classes, (count,) = driver.serve([IMAGE])
    resizer = AutomlResizer(height=32, width=32, per_channel_pad_value=(127.0,))
    placed = resizer(tf.constant(IMAGE), tf.zeros([0, 20, 40], tf.uint8)).image
    expected = TFLiteRunner(path, normalisation=((127.0,), (128.0,)))(placed.numpy())
    assert count == len(expected.scores) > 0 and driver.label_map == names["label_map"]
    # 40 columns fill 32; 20 rows fill 16 of 32, as 40 would fill all.
    wanted = np.minimum(expected.boxes * 40, [20, 40, 20, 40])
    np.testing.assert_allclose(boxes[0, :count], wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(scores[0, :count], expected.scores)
    np.testing.assert_array_equal(classes[0, :count], expected.classes + 1)


def test_a_scaled_range_is_one_normalisation_and_without_parameters_none_is_guessed(path):
    values = load_hyperparameters("efficientdet-lite0", PARAMS | {"scale_range": True}).values
    mean, std = ServedFile(path, values)._runner._normalisation
    pixel = 200.0
    assert (pixel - mean[0]) / std[0] == pytest.approx((pixel - 127.0) / 128.0 * 2.0 / 255 - 1.0)
    refused(ModelError, "the input's normalisation", ServingDriver.create, "_", saved_model_dir=path)


def batches(config, **arguments) -> list[np.ndarray]:
    label_map = load_label_map(config.train_input_reader.label_map_path)
    return [np.asarray(b) for b in representative_pixels(config, label_map=label_map, **arguments)]


def test_about_as_many_as_asked_for_and_always_the_same_although_training_flips():
    config = pointed("ssd")
    before = config.SerializeToString()
    for examples, sizes in ((4, [2, 2]), (5, [2, 2, 2]), (100, [2, 2, 2])):
        found = batches(config, examples=examples, batch_size=2)
        assert [len(batch) for batch in found] == sizes
        assert found[0].shape == (2, 64, 64, 3) and found[0].dtype == np.float32
        assert 0 <= found[0].min() < 30 and 220 < found[0].max() <= 255
    assert config.SerializeToString() == before, "the config is left as it is"
    first, second = batches(config, examples=6), batches(config, examples=6)
    np.testing.assert_array_equal(first[0], second[0])
