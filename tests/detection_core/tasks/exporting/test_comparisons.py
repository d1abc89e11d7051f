"""Which network a file is made from, which layers of it stay in float, and what the file has to find."""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts.detector import DetectorInfo
from detection_core.artifacts.parity import NetworkParity
from detection_core.artifacts.quantization import LayerError
from detection_core.artifacts.tflite_provenance import Provenance, with_provenance
from detection_core.config.input_paths import evaluating_training, point_at_examples, point_at_other_split
from detection_core.errors import ConfigError, ModelError
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.results import EvaluatedImage, iou_px
from detection_core.exporters.tflite_formats import FORMATS, Network, Tolerance
from detection_core.exporters.tflite_layers import ReferenceNetwork, compare_layers
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.structures import Instances
from detection_core.tasks import compare_file as module
from detection_core.tasks.compare_file import CompareOptions, compare_file
from detection_core.tasks.exporting.comparisons import (
    LEAST_SCORE,
    box_clauses,
    compare_boxes,
    measured_metrics,
    network_clauses,
    shape_clauses,
)
from detection_core.tasks.exporting.export_networks import (
    ExportNetworks,
    ExportSource,
    choose_float_layers,
)
from tests.support.cases import refused
from tests.support.evaluated_images import make_truth
from tests.support.tiny_files import file_of, function_of, inputs_of

TOLERANCE = Tolerance(heads_db=20.0, matched_boxes=0.9)
SEEDS = st.integers(0, 2**32 - 1)
# Of boxes, scores and classes.
FAULTS = {
    "without a class": lambda *given: [values[given[2] != 1] for values in given],
    "shifted": lambda boxes, scores, classes: (boxes + 0.04, scores, classes),
    "swapped": lambda boxes, scores, classes: (boxes, scores, 2 - classes),
    "first alone": lambda *given: [values[:1] for values in given],
}
_INFO_FIELDS = {"kind": "float", "name": "ssd", "parameters": 1, "num_classes": 2, "input_size": (32, 32)}
INFO = DetectorInfo(**_INFO_FIELDS, extra={"trained_as": "b"})
_AWARE = Provenance(format="int8", made_from="quantization_aware")
_NEWER = Provenance(format="int2", written_by="detflow 9")
_OTHER = Provenance(format="float32", made_from="float", trained_as="a")
CASES = (
    (None, ModelError, "(detflow.json at its end), found none; pass a file that export wrote"),
    (_AWARE, ConfigError, "quantized_model: expected the quantization-aware detector"),
    (_NEWER, ModelError, "found 'int2'; it is of another version (detflow 9)"),
    (_OTHER, ModelError, "expected a file of the detector in m (training b), found one of training a"),
)
NOISE = {"stem": 40.0, "dw": 5.0, "project": 30.0, "head": 10.0, "tail": 20.0, "dead": None}
"""Layer to its own signal-to-noise ratio, decibels."""
WEIGHTS = dict.fromkeys(NOISE, 100) | {"dw": 10, "head_conv": 1000}


def evaluated(boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray) -> EvaluatedImage:
    boxes, scores = np.asarray(boxes, np.float32).reshape(-1, 4), np.asarray(scores, np.float32)
    classes = np.asarray(classes, np.int32)
    detections = Instances(source_id="x", boxes=boxes, scores=scores, classes=classes)
    return EvaluatedImage(truth=make_truth([], [], height=10, width=10, source_id="x"), detections=detections)


def image(*found: tuple[float, float, int]) -> EvaluatedImage:
    """One row of boxes of a tenth of the image, each (left side, score, class)."""
    boxes = np.array([[0.0, left, 0.1, left + 0.1] for left, _, _ in found])
    return evaluated(boxes, np.array([s for _, s, _ in found]), np.array([label for _, _, label in found]))


def test_boxes_are_found_by_class_and_overlap_once_and_nothing_to_find_is_all_found():
    reference = [image((0.0, 0.9, 0), (0.3, 0.8, 1), (0.6, 0.7, 0), (0.8, 0.2, 0))]
    found = [image((0.01, 0.7, 0), (0.3, 0.8, 0), (0.62, 0.7, 0), (0.0, 0.6, 1))]
    parity = compare_boxes(reference, found, TOLERANCE)
    # The second has another class there; the fourth does not count.
    assert parity.detections == 3 and parity.matched == pytest.approx(2 / 3, abs=1e-6)
    assert parity.mean_iou == pytest.approx((0.09 / 0.11 + 0.08 / 0.12) / 2, abs=1e-4)
    assert parity.mean_score_difference == pytest.approx(0.1, abs=1e-6)
    assert (parity.undecided, parity.score_noise) == (0, pytest.approx(0.19, abs=1e-6))
    parity = compare_boxes([image((0.0, 0.1, 0))], [image()], TOLERANCE)
    assert (parity.detections, parity.matched, parity.mean_iou, parity.score_noise) == (0, 1.0, None, None)
    assert list(box_clauses(parity)) == []
    all_lost = [compare_boxes([image((0.0, 0.9, 0))] * n, [image()] * n, TOLERANCE) for n in (19, 20)]
    few, many = map(list, map(box_clauses, all_lost))
    assert few == [] and many[0].startswith("0.0% of the SavedModel's 20 detections from a score of 0.3")


def test_keypoints_of_a_file_may_fall_as_far_as_its_boxes():
    def split(*moved: float, keypoints: int = 2) -> EvaluatedSplit:
        images = []
        for by in moved:
            box = np.array([[0.1, 0.1, 0.9, 0.9]], np.float32)
            points = np.array([[[0.2, 0.2], [0.8, 0.8]]], np.float32)
            truth = Instances(source_id="x", height=100, width=100, boxes=box, classes=np.array([0]))
            truth = dataclasses.replace(truth, keypoints=points)
            given = {"scores": np.array([0.9], np.float32), "keypoints": (points + by)[:, :keypoints]}
            found = dataclasses.replace(truth, **given)
            images.append(EvaluatedImage(truth=truth, detections=found))
        return EvaluatedSplit(images=tuple(images), class_names={0: "a"})

    sets = ("coco_detection_metrics", "coco_keypoint_metrics")
    right, half = (measured_metrics(split(0.0, by), sets) for by in (0.0, 0.5))
    name = "Keypoints_Precision/mAP@.50IOU"
    assert right[name] == 1.0 and half[name] == pytest.approx(0.5, abs=0.01)
    assert right["DetectionBoxes_Precision/mAP@.50IOU"] == half["DetectionBoxes_Precision/mAP@.50IOU"] == 1.0
    (clause,) = shape_clauses(half, right, 0.02)
    assert clause.startswith("mAP@.50 of keypoints 0.5") and clause.endswith("more than 0.0200")
    assert not list(shape_clauses(half, right, 0.6)) and not list(shape_clauses(right, half, 0.0))
    # A file of several classes finds none.
    without = measured_metrics(split(0.0, keypoints=0), sets)
    assert name not in without and not list(shape_clauses(without, right, 0.02))
    assert name not in measured_metrics(split(0.0), sets[:1])


def test_only_what_is_as_good_and_real_suppresses():
    # 0.04 beside it is an overlap of 0.43: not the same, and enough to suppress.
    others = [(0.2 + 0.12 * n, 0.9, 2) for n in range(6)]
    alike = image(*((left, 0.89, 2) for left, _, _ in others))  # so that the noise is known: 0.01
    reference = [image((0.0, 0.8, 0), (0.04, 0.79, 0)), *[image(*others)] * 4]
    for score, label, undecided in (
        (0.79, 0, 1),  # of the same class and as good: it may have suppressed it
        (0.6, 0, 0),  # far worse: something else has lost it
        (0.79, 1, 0),  # nothing of this class is here
    ):
        parity = compare_boxes(reference, [image((0.0, score, label)), *[alike] * 4], TOLERANCE)
        lost = {0: 1, 1: 2}[label] - undecided
        assert (parity.undecided, parity.detections) == (undecided, 26 - undecided)
        assert parity.matched == pytest.approx(1 - lost / (26 - undecided), abs=1e-6)


def test_the_last_of_a_full_list_are_cut_off_by_chance():
    # A trace of a score finds nothing.
    parity = compare_boxes([image((0.0, 0.9, 0))], [image((0.0, 0.4, 0))], TOLERANCE)
    assert (parity.detections, parity.matched) == (1, 0.0)
    reference = [image((0.0, 0.9, 0), (0.3, 0.41, 0), (0.6, 0.4, 0))]
    found = [image((0.0, 0.88, 0), (0.8, 0.42, 1))]
    full, open_ = (compare_boxes(reference, found, TOLERANCE, max_detections=most) for most in (2, 3))
    assert (full.undecided, full.matched) == (2, 1.0)
    assert (open_.undecided, open_.matched) == (0, pytest.approx(1 / 3, abs=1e-6))


@dataclasses.dataclass(frozen=True)
class Scene:
    """What a network gives before suppression: boxes [A, 4] and scores [A, C]."""

    boxes: np.ndarray
    scores: np.ndarray

    def noisy(self, rng: np.random.Generator, noise: float) -> Scene:
        scores = np.clip(self.scores + rng.uniform(-noise, noise, self.scores.shape), 0, 1)
        return Scene(self.boxes + rng.uniform(-0.002, 0.002, self.boxes.shape), scores)

    def by_class(self, overlap: float, most: int) -> EvaluatedImage:
        """Suppress class by class, as the SavedModel does."""
        rows = []
        for label in range(self.scores.shape[1]):
            rows += [(a, label) for a in kept(self.boxes, self.scores[:, label], overlap)[:most]]
        rows = sorted(rows, key=lambda row: -self.scores[row])[:most]
        anchors, labels = np.array(rows).T
        return evaluated(self.boxes[anchors], self.scores[anchors, labels], labels)

    def across_classes(self, overlap: float, most: int) -> EvaluatedImage:
        """Let boxes of all classes suppress each other, as files do."""
        best, labels = self.scores.max(axis=1), self.scores.argmax(axis=1)
        anchors = kept(self.boxes, best, overlap)[:most]
        return evaluated(self.boxes[anchors], best[anchors], labels[anchors])


def kept(boxes: np.ndarray, scores: np.ndarray, overlap: float) -> list[int]:
    near = iou_px(boxes, boxes, np.zeros(len(boxes), bool)) > overlap
    left, found = np.ones(len(boxes), bool), []
    for anchor in np.argsort(-scores, kind="stable"):
        if left[anchor]:
            found.append(int(anchor))
            left &= ~near[anchor]
    return found


def crowd(rng: np.random.Generator, spread: float, anchors: int = 90) -> Scene:
    """Boxes all over the image, overlapping, with scores that differ by no more than the spread."""
    corners = rng.uniform(0, 0.8, (anchors, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0.15, 0.25, (anchors, 2))], axis=1)
    return Scene(boxes, np.clip(0.5 + rng.uniform(-spread, spread, (anchors, 3)), 0, 1))


def objects(rng: np.random.Generator) -> Scene:
    """A grid of objects apart from each other, each with some boxes of which one class is sure."""
    cells = np.stack(np.meshgrid(*[np.arange(5) / 5] * 2), -1).reshape(-1, 2)
    corners = np.repeat(cells, 3, axis=0) + rng.uniform(0.02, 0.03, (75, 2))
    scores = rng.uniform(0, 0.1, (75, 3))
    scores[np.arange(75), np.repeat(rng.integers(0, 3, 25), 3)] = rng.uniform(0.6, 0.9, 75)
    return Scene(np.concatenate([corners, corners + 0.14], axis=1), scores)


FORMS = {"by class": Scene.by_class, "across classes": Scene.across_classes}


@settings(deadline=None, max_examples=20)
@given(
    seed=SEEDS,
    spread=st.sampled_from([0.0, 0.001, 0.05, 0.15]),
    noise=st.sampled_from([0.0005, 0.01, 0.05]),
    form=st.sampled_from(list(FORMS)),
    overlap=st.sampled_from([0.3, 0.5, 0.6]),
    most=st.sampled_from([10, 100]),
)
def test_noise_alone_refuses_no_file(seed, spread, noise, form, overlap, most):
    rng = np.random.default_rng(seed)
    scenes = [crowd(rng, spread) if n % 2 else objects(rng) for n in range(4)]
    reference = [scene.by_class(max(overlap, 0.5), most) for scene in scenes]
    found = [FORMS[form](scene.noisy(rng, noise), overlap, most) for scene in scenes]
    parity = compare_boxes(reference, found, TOLERANCE, max_detections=most)
    assert list(box_clauses(parity)) == [], parity


@settings(deadline=None, max_examples=15)
@given(seed=SEEDS, form=st.sampled_from(list(FORMS)))
def test_of_objects_that_lie_apart_all_count_and_faults_are_not_taken_for_noise(seed, form):
    rng = np.random.default_rng(seed)
    scenes = [objects(rng) for _ in range(4)]
    reference = [scene.by_class(0.5, 100) for scene in scenes]
    noisy = [scene.noisy(rng, 0.02) for scene in scenes]
    parity = compare_boxes(reference, [FORMS[form](scene, 0.5, 100) for scene in noisy], TOLERANCE)
    assert parity.undecided == 0 and parity.detections >= 100 and parity.matched == 1.0
    for name, fault in FAULTS.items():
        found = [scene.by_class(0.5, 100).detections for scene in noisy]
        spoilt = [evaluated(*fault(each.boxes, each.scores, each.classes)) for each in found]
        (clause,) = box_clauses(compare_boxes(reference, spoilt, TOLERANCE))
        assert f"from a score of {LEAST_SCORE:g}" in clause, name


def test_heads_beyond_the_bound_name_the_layer():
    first = {"layer": "class_head", "operation": "CONV_2D", "layer_db": 1.8}
    heads = {"box_codes": 31.0, "class_logits": -2.2}
    apart = NetworkParity(images=4, least_db=20.0, heads=heads, **first)
    (clause,) = network_clauses(apart)
    assert "class_logits -2.2 dB" in clause and "box_codes" not in clause
    assert "first differ at class_head (CONV_2D, 1.8 dB)" in clause
    near = NetworkParity(images=4, least_db=20.0, heads={"box_codes": 31.0}, layer="tower", layer_db=19.0)
    assert list(network_clauses(near)) == [] and list(network_clauses(None)) == []
    # A head without counterpart is a separate clause.
    lost = NetworkParity(images=4, least_db=20.0, heads={"box_codes": 31.0}, unmatched=["class_logits;x"])
    (clause,) = network_clauses(lost)
    assert clause.startswith("raw heads class_logits;x do not belong to the network")
    both = dataclasses.replace(lost, heads={"box_codes": 3.0}, layer="tower", layer_db=4.0)
    assert ["do not belong" in clause for clause in network_clauses(both)] == [True, False]


def test_files_of_one_network_are_held_against_one_copy_of_it():
    with ReferenceNetwork(function_of(False)) as reference:
        for name in ("float32", "int8_weights"):
            inputs = inputs_of(file_of(name))[:2]
            parity = compare_layers(file_of(name), reference, inputs, FORMATS[name].tolerance.heads_db)
            assert parity.images == 2 and parity.unmatched == [] and parity.layer == ""
            assert min(parity.heads.values()) > parity.least_db and len(parity.heads) == 2
    refused(RuntimeError, "closed", reference.run, inputs_of(file_of("float32"))[0], [])


def test_a_file_of_something_else_no_file_and_no_image_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module.layout, "read_info", {"m": INFO}.__getitem__)
    path, content = tmp_path / "file.tflite", file_of("float32")
    for origin, kind, text in CASES:
        path.write_bytes(content if origin is None else with_provenance(content, origin))
        refused(kind, re.escape(text), compare_file, str(path), "m", "e")
    for path in (tmp_path, tmp_path / "none.tflite"):
        with pytest.raises(ModelError, match=r"expected a .tflite file, found none; check the path"):
            compare_file(str(path), "m", "e")
    refused(ConfigError, "images: expected at least one image, found 0", CompareOptions, images=0)


def source(quantized_dir: str) -> ExportSource:
    nothing: Any = None
    about = {"detector": nothing, "config": nothing, "representative_examples": 1}
    return ExportSource(quantized_dir=quantized_dir, **about)


def test_a_format_s_network_is_of_the_detector_that_it_names():
    for name, alone, beside in (
        ("float32", "float", "float"), ("int4_weights", "float", "float"),
        ("int8", "float", "quantization_aware"), ("int8_post_training", "float", "float"),
        ("int8_mixed", "float", "float"), ("int8_mixed_aware", "quantization_aware", "quantization_aware"),
        ("int4_weights_aware", "quantization_aware", "quantization_aware"),
    ):  # fmt: skip
        network = FORMATS[name].network
        found = [ExportNetworks(source(folder)).made_from(network) for folder in ("", "quantized")]
        assert found == [alone, beside], name
    assert Provenance().made_from == ""
    # Without a trained one, integers are those of the float network.
    assert ExportNetworks(source("")).there(Network.AWARE) is Network.POST_TRAINING
    assert ExportNetworks(source("folder")).there(Network.AWARE) is Network.AWARE


@pytest.mark.parametrize(
    ("splits", "reported", "wanted"),
    [(("eval", "test"), "test", "eval"), (("eval", "test"), "eval", "test"), (("test",), "test", "train")],
)
def test_layers_are_chosen_on_other_images_than_those_reported_on(tmp_path, splits, reported, wanted):
    for split in ("train", *splits):
        (tmp_path / f"Split-{split}").mkdir()
    config = point_at_examples(TrainEvalPipelineConfig(), str(tmp_path), eval_split=reported)
    (reader,) = point_at_other_split(config, str(tmp_path), reported).eval_input_reader
    assert f"Split-{wanted}/" in reader.tf_record_input_reader.input_path[0]
    (reported_on,) = config.eval_input_reader
    assert f"Split-{reported}/" in reported_on.tf_record_input_reader.input_path[0]


def test_where_no_folder_is_known_they_are_those_trained_on():
    config = point_at_examples(TrainEvalPipelineConfig(), "examples", eval_split="test")
    (reader,) = evaluating_training(config).eval_input_reader
    assert "Split-train/" in reader.tf_record_input_reader.input_path[0] and not reader.shuffle


class Quantized:
    """Stands for a detector: what stays in float is all that is known of one."""

    def layer_errors(self, batches):
        same = {"kind": "Conv2D", "group": "", "total_db": 0, "mean_error": 0, "largest_error": 0}
        return [LayerError(layer=layer, own_db=noise, range=(0, 1), **same) for layer, noise in NOISE.items()]

    def sharing_range(self, layer):
        return ["head_conv", "head"] if layer == "head" else [layer]

    def weight_count(self, layers):
        return sum(WEIGHTS[layer] for layer in layers)

    def leave_in_float(self, layers):
        return frozenset(layers)


def won_back(layers):
    """Score a detector: what each layer in float wins back."""
    gains = {"dw": 0.05, "head": 0.03, "tail": 0.01, "project": 0.01}
    return 0.4 + sum(gains.get(layer, 0) for layer in layers)


def choose(**budget):
    return choose_float_layers(Quantized(), frozenset(NOISE), [], won_back, **budget)


def test_the_noisiest_layers_come_first_and_accuracy_and_size_bound_them(caplog):
    caplog.set_level(logging.INFO)
    order = ("dw", "head_conv", "head", "tail", "project")
    for max_drop, layers in ((0.11, ()), (0.06, order[:1]), (0.03, order[:3]), (0.005, order)):
        caplog.clear()
        assert choose(max_drop=max_drop) == layers, max_drop
        (line,) = caplog.messages
        assert f"{3 * Quantized().weight_count(layers):+d} bytes: mAP@.50 {won_back(layers):.4f}" in line
        assert "0.4000 in integers, 0.5000 in float" in line
    assert choose(max_drop=0.005, max_bytes=200) == ("dw",) and "+30 bytes" in caplog.text
    assert "every choice within the size limit loses more than 0.005" in caplog.text
    assert choose(max_drop=0.005, max_bytes=0) == ()
