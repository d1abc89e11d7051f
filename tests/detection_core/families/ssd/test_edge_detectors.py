"""SSDLite on networks for mobile devices: published sizes, one update, a checkpoint's weights, both files."""

import functools
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.artifacts.tflite_file import read_graph
from detection_core.builders.detector import build_detector
from detection_core.config.check import check_pipeline_config
from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.exporters.operator_times import xnnpack_delegation
from detection_core.exporters.tflite import Conversion
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.families.ssd.checkpoint_names import checkpoint_names
from detection_core.families.ssd.model import SsdModel
from detection_core.families.ssd.scoped_names import scoped_variables
from detection_core.families.ssd.tflite import post_process_options, tflite_function
from detection_core.ops.objects import new_truth
from detection_core.optional.accelerators.accelerator_lint import lint
from detection_core.quantization.rewriting import rewrite
from detection_core.structures import Batch
from detection_core.tasks.describe import count_flops
from tests.support.batches import images_of
from tests.support.field_checkpoints import restored, write_named_checkpoint
from tests.support.tiny_network import randomise
from tests.support.updates import losses_of_descent
from tests.support.zoo_configs import edge_config

SIDE, RATE = 96, 0.01
PIXELS = np.random.default_rng(0).uniform(0, 255, (2, SIDE, SIDE, 3)).astype(np.float32)
OWN_KERNELS: dict[str, set[str]] = {
    **{f"ssd_mobilenet_v3_{size}": {"HARD_SWISH"} for size in ("large", "small")},
    "ssd_mobilenet_v3_small_minimalistic": set(),
    "ssd_mobiledet_cpu": {"HARD_SWISH"},
    **{f"ssd_mobiledet_{hardware}": set() for hardware in ("dsp", "edgetpu", "gpu")},
    "ssd_mobilenet_edgetpu": set(),
    **{f"ssd_inception_{version}": {"AVERAGE_POOL_2D"} for version in ("v2", "v3")},
}
"""Extractor -> operations of its network that XNNPACK leaves to LiteRT's own kernels in an integer file."""
JOINED = {"ssd_inception_v3": {"CONCATENATION"}}
"""The same of any file: the converter joins concatenations to some of six inputs, and XNNPACK takes five."""
# Parameters and multiply-adds of published detectors of 90 classes, 320 x 320, as rounded as they are.
WITHOUT_NORMS = {
    # https://arxiv.org/abs/1905.02244, table 6, the rows with half the channels in the last block
    "ssd_mobilenet_v3_large": ("3.22M", "0.51B"),
    "ssd_mobilenet_v3_small": ("1.77M", "0.16B"),
}
WITH_STATISTICS = {
    # https://arxiv.org/abs/2004.14525, and the first lines of the published configs
    "ssd_mobiledet_cpu": ("4.21M", "0.44B"),  # 0.45 there, with what gates take beside their convolutions
    "ssd_mobiledet_dsp": ("7.16M", "2.82B"),
    "ssd_mobiledet_edgetpu": ("4.20M", "1.53B"),
    "ssd_mobiledet_gpu": ("13.11M", "5.07B"),
}
QUICK = ("ssd_mobilenet_v3_small", "ssd_mobiledet_dsp", "ssd_inception_v2")
"""Tried in every run of the tests; the others take their share of minutes."""


def _some(names: Iterable[str], quick: Collection[str] = QUICK, marks: Any = ()) -> list[Any]:
    return [pytest.param(name, marks=marks if name in quick else pytest.mark.zoo) for name in names]


def _config(extractor: str):
    return edge_config(extractor, side=SIDE, classes=2, multiplier=0.25)


@functools.cache
def _detector(extractor: str) -> SsdModel:
    """A detector with random weights, whose scores are neither 0 nor 1."""
    model = build_detector(_config(extractor).model, seed=0)
    randomise(model.network, 3)
    for level in range(6):
        predictor = model.network.get_layer(f"class_head_{level}")
        predictor.kernel.assign(predictor.kernel / 20)
    return model


@pytest.mark.parametrize("extractor", _some((*WITHOUT_NORMS, *WITH_STATISTICS)))
def test_a_published_config_has_its_paper_s_parameters_and_multiply_adds(extractor):
    config = edge_config(extractor)
    check_pipeline_config(config)
    network = build_detector(config.model, seed=None).network
    counted = [v for v in network.variables if extractor in WITH_STATISTICS or "_bn/" not in v.name]
    parameters = sum(int(np.prod(v.shape)) for v in counted)
    found = f"{parameters / 1e6:.2f}M", f"{count_flops(network) / 2e9:.2f}B"
    assert found == (WITHOUT_NORMS | WITH_STATISTICS)[extractor]


@pytest.mark.parametrize("extractor", _some(OWN_KERNELS))
def test_updates_lower_the_loss(extractor):
    """Of eight images: batch norms of maps of one pixel are ill-conditioned with two."""
    model = build_detector(_config(extractor).model, seed=0)
    pixels = np.random.default_rng(2).uniform(0, 255, (8, SIDE, SIDE, 3)).astype(np.float32)
    boxes = tf.constant([[[0.1, 0.1, 0.6, 0.5]], [[0.3, 0.4, 0.9, 0.9]]] * 4)
    batch = Batch(images=images_of(pixels), truth=new_truth(boxes, tf.constant([[0], [1]] * 4)))
    losses = losses_of_descent(model, batch, RATE, 2)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("extractor", _some(OWN_KERNELS, QUICK[:1]))
def test_a_checkpoint_of_tensorflow_1_fills_every_variable(extractor, tmp_path):
    model, other = _detector(extractor), build_detector(_config(extractor).model, seed=1)
    names = {v.name: v.variable.numpy() for v in scoped_variables(model.network, extractor)}
    path, options = write_named_checkpoint(names, tmp_path / "model.ckpt"), {"named": True, "heads": True}
    report = restored(other, checkpoint_names(), path, kind="detection", extractor=extractor, **options)
    assert report.counts()["restored"] == len(model.network.variables) == len(other.network.variables)
    pixels = model.preprocess(tf.constant(PIXELS))
    for ours, theirs in zip(model.network(pixels), other.network(pixels), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _file(model: SsdModel, extractor: str, *, integer: bool) -> bytes:
    outputs = TFLiteOutputOptions(max_detections=5, classes_per_detection=1, use_regular_nms=False)
    options = post_process_options(_config(extractor), outputs)
    conversion = Conversion(function=tflite_function(model, options, integer=integer))
    return FORMATS["int8" if integer else "float32"].convert(conversion)


def _left(content: bytes) -> tuple[int, set[str]]:
    """Return how many parts XNNPACK runs, and which operations none of them has."""
    found, operators = xnnpack_delegation(content), read_graph(content).operators
    return len(found.partitions), {operators[index].name for index in found.left}


def _best(content: bytes, pixels: Any) -> float:
    run = Interpreter(model_content=content).get_signature_runner("serving_default")
    return float(run(input=np.asarray(pixels))["output_1"].max())


def _best_score(model: SsdModel) -> float:
    _, logits = model.network(model.preprocess(tf.constant(np.trunc(PIXELS[:1]))), training=False)
    best = float(tf.reduce_max(tf.sigmoid(logits[0, :, 1:])))
    assert 0.05 < best < 0.95
    return best


@pytest.mark.parametrize("extractor", _some(OWN_KERNELS, QUICK[:1], pytest.mark.slow))
def test_both_files_are_one_part_up_to_the_post_processing(extractor):
    model, joined = _detector(extractor), JOINED.get(extractor, set())
    content = _file(model, extractor, integer=False)
    parts, left = _left(content)
    assert left - {"TFLite_Detection_PostProcess"} == joined
    assert parts == 1 or joined
    assert len(lint(content, "xnnpack").parts) == parts
    prepared = model.preprocess(tf.constant(np.trunc(PIXELS[:1])))
    np.testing.assert_allclose(_best(content, prepared), _best_score(model), rtol=1e-3)
    rewritten = rewrite(model, QuantizationOptions(delay=0))
    assert rewritten.float_layers() == []
    rewritten.calibrate([tf.constant(PIXELS)])
    content = _file(rewritten.model, extractor, integer=True)
    graph = read_graph(content)
    named = [(op.name, graph.tensors[op.outputs[0]].dtype == "int8") for op in graph.operators]
    others = {name for name, integer in named if not integer}
    assert others <= {"DEQUANTIZE", "LOGISTIC", "MUL", "TFLite_Detection_PostProcess"}
    assert {("CONV_2D", True), ("DEPTHWISE_CONV_2D", True)} <= set(named)
    found = _best(content, PIXELS[:1].astype(np.uint8))
    np.testing.assert_allclose(found, _best_score(rewritten.model), atol=0.02)
    parts, left = _left(content)
    assert left - {"QUANTIZE", "TFLite_Detection_PostProcess"} == OWN_KERNELS[extractor] | joined
    assert parts == 1 or OWN_KERNELS[extractor]
