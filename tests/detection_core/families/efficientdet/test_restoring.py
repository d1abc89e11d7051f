"""Detectors from google/automl's checkpoints, in both formats, against what its own restoring gives."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts import detector as layout
from detection_core.artifacts.model_run import RESTORED_TABLE
from detection_core.errors import ModelError
from detection_core.exporters.detector_folder import load_detector
from detection_core.families.efficientdet.build import build_efficientdet
from detection_core.families.efficientdet.checkpoint_names import automl_variables, checkpoint_names
from detection_core.families.efficientdet.model import EfficientDetModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.tasks.import_checkpoint import import_checkpoint
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_variables import AVERAGED, Outcome, checkpoint_content
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases
from tests.support.field_checkpoints import restored, write_named_checkpoint, write_object_checkpoint
from tests.support.tiny_training import LABELS

pytestmark = pytest.mark.slow

CASES = goldens.cases("checkpoint_restore")
LITE0, D0, CLASSES = "efficientdet-lite0", "efficientdet-d0", 4
SMALL = {"fpn_cell_repeats": 1, "box_class_repeats": 1, "max_level": 6, "fpn_num_filters": 8}
HEADS = ("class_net/", "box_net/")


@functools.cache
def _built(name, *heads):
    return build_efficientdet(_message(name, *heads), "model.efficientdet", None)


def _message(name=LITE0, *heads, size=128):
    return goldens.message(name, size, heads=heads, num_classes=CLASSES, **(SMALL if name == LITE0 else {}))


def _detector(name=LITE0, *heads, averages=True):
    """A detector whose variables have values of no checkpoint; all tests share its network."""
    built = _built(name, *heads)
    for variable in built.network.variables:
        variable.assign(tf.fill(variable.shape, -9.0))
    settings = dataclasses.replace(built.parts.settings, restore_moving_averages=averages)
    return EfficientDetModel(built.network, dataclasses.replace(built.parts, settings=settings))


def _variables(detector):
    return automl_variables(detector.network, detector.parts.settings)


@functools.cache
def _weight(key, shape):
    return goldens.deterministic_weight(key, shape)


def _values(detector, change=0.0, classes=CLASSES):
    """Variables, and the values of a checkpoint that knows so many classes."""
    for own in _variables(detector):
        shape = tuple(own.variable.shape)
        if "class-predict" in own.name and classes != CLASSES:
            shape = (*shape[:-1], shape[-1] * classes // CLASSES)
        yield own, _weight(own.key, shape) + np.float32(change)


def _named(folder, detector, *, averaged, backbone=False, classes=CLASSES):
    entries = {"global_step": np.int64(7)}
    for own, value in _values(detector, classes=classes):
        if not backbone or own.key.startswith("backbone/"):
            entries[own.name] = value
            if averaged:
                entries[own.name + AVERAGED] = value + np.float32(1.0)
    return write_named_checkpoint(entries, folder / "model")


def _objects(folder, detector, classes=CLASSES):
    values = {own.key: value for own, value in _values(detector, 2.0, classes)}
    return write_object_checkpoint(values, folder / "ckpt")


def _matched(detector):
    """How many variables have plain, averaged and object-based values, and none of them."""
    counts = dict.fromkeys(("plain", "averaged", "object", "unchanged_or_other"), 0)
    for own, value in _values(detector):
        found = own.variable.numpy()
        changes = (("plain", 0), ("averaged", 1), ("object", 2))
        near = (name for name, change in changes if np.array_equal(found, value + np.float32(change)))
        counts[next(near, "unchanged_or_other")] += 1
    return counts


def _restore(detector, path, kind, *, named, heads=False):
    return restored(detector, checkpoint_names(), path, kind=kind, named=named, heads=heads)


def _content(path):
    found = checkpoint_content(CheckpointFile(path), checkpoint_names())
    return found.of, found.named, found.heads


def _stem_row(report):
    (row,) = (row for row in report.variables if row.name == "backbone_stem/kernel")
    return row.key


def test_averaged_values_win_unless_they_are_not_wanted_and_plain_ones_are_not_left_over(tmp_path):
    detector = _detector()
    both, plain = (_named(tmp_path / str(a), detector, averaged=a) for a in (True, False))
    assert _content(both) == _content(plain) == ("detector", True, True)
    for path, averages, expected in (
        (both, True, "averaged"),
        (plain, True, "plain"),
        (both, False, "plain"),
    ):
        detector = _detector(averages=averages)
        report = _restore(detector, path, "detection", named=True, heads=True)
        count = len(_variables(detector))
        assert _matched(detector)[expected] == count == report.count(Outcome.RESTORED), expected
        assert report.averaged == (count if expected == "averaged" else 0)
        assert report.unused == ()


def test_other_classes_keep_all_but_what_depends_on_them_and_a_backbone_gives_the_backbone(tmp_path):
    detector = _detector()
    path = _named(tmp_path / "7", detector, averaged=True, classes=7)
    report = _restore(detector, path, "full", named=True)
    skipped = [row.key for row in report.variables if row.outcome is Outcome.SKIPPED_SHAPE]
    assert skipped == [f"class_net/class-predict/{leaf}{AVERAGED}" for leaf in ("pointwise_kernel", "bias")]
    assert "skipped: another shape: class_head_pointwise/kernel" in report.table()
    detector = _detector()
    path = _named(tmp_path / "backbone", detector, averaged=False, backbone=True)
    _restore(detector, path, "classification", named=True)
    backbone = [own for own in _variables(detector) if own.key.startswith("backbone/")]
    assert _matched(detector)["plain"] == len(backbone)
    assert _content(path)[0] == "classifier"
    path = write_named_checkpoint({"other/kernel": np.float32([1.0])}, tmp_path / "other")
    with pytest.raises(ModelError, match="found none of them"):
        _restore(_detector(), path, "detection", named=True)


def test_objects_are_restored_whole_or_without_heads(tmp_path):
    detector = _detector()
    path = _objects(tmp_path, detector)
    assert _content(path) == ("detector", False, True)
    report = _restore(detector, path, "full", named=False)
    assert _matched(detector)["object"] == len(_variables(detector)) == report.count(Outcome.RESTORED)
    assert report.unused == ()
    other = _detector()
    report = _restore(other, _objects(tmp_path / "7", other, classes=7), "detection", named=False)
    heads = [own for own in _variables(other) if own.key.startswith(HEADS)]
    assert _matched(other)["object"] == len(_variables(other)) - len(heads)
    assert report.unused and all(key.startswith(HEADS) for key in report.unused)


def test_the_averages_of_a_training_win_over_its_plain_values(tmp_path):
    """Slots are kept of what is trained: statistics, and what was frozen, have none."""
    detector = _detector()
    trained = {v.ref() for v in detector.network.trainable_variables}
    averages = {
        own.key: value
        for own, value in _values(detector, 1.0)
        if own.variable.ref() in trained and not own.key.startswith("fpn_cells/")
    }
    plain = {own.key: value for own, value in _values(detector, 2.0)}
    path = write_object_checkpoint(plain, tmp_path / "ckpt", averages)
    report = _restore(detector, path, "full", named=False)
    counts = {"averaged": len(averages), "object": len(plain) - len(averages)}
    assert _matched(detector) == {"plain": 0, "unchanged_or_other": 0} | counts
    assert (report.averaged, report.count(Outcome.RESTORED)) == (len(averages), len(plain))
    assert report.unused == ()
    slot = "backbone/_stem/_conv_stem/kernel/.OPTIMIZER_SLOT/optimizer/average/.ATTRIBUTES/VARIABLE_VALUE"
    assert _stem_row(report) == slot
    # Their own training wrote keys of this form.
    facts = goldens.cases("training_step")["default"]["fact"]["training_checkpoint"]
    assert {key.partition("/.OPT")[2] for key in facts["slot_key_examples"]} >= {slot.partition("/.OPT")[2]}
    without = _detector(averages=False)
    _restore(without, path, "full", named=False)
    assert _matched(without)["object"] == len(plain)


def _hub_key(own):
    """The facts' rule for trainings on a module of TensorFlow Hub, which Model Maker's are, too."""
    rule = CASES["rules"]["fact"]["head_only_module_fallback"]
    for prefix, layer in rule["variable_prefix_to_key_prefix"]:
        if own.name.startswith(prefix):
            name = own.name.removeprefix(prefix) + ("" if prefix else ":0")
            return f"{layer}/{name.replace('/', '.S')}"
    raise AssertionError(own.name)


def test_a_training_on_a_module_of_tensorflow_hub_is_restored(tmp_path):
    detector = _detector()

    def write(folder, classes):
        values = {_hub_key(own): value for own, value in _values(detector, 2.0, classes)}
        averages = {_hub_key(own): value for own, value in _values(detector, 1.0, classes)}
        averages = {"classes/bias": averages["classes/bias"]}
        return values, write_object_checkpoint(values, folder / "ckpt", averages)

    values, path = write(tmp_path, CLASSES)
    assert "base_model/efficientnet-lite0.Sstem.Sconv2d.Skernel:0" in values and "classes/bias" in values
    written = {name for name, _ in tf.train.list_variables(path)}
    assert {f"{key}/.ATTRIBUTES/VARIABLE_VALUE" for key in values} <= written
    report = _restore(detector, path, "full", named=False)
    counts = _matched(detector)
    assert (counts["averaged"], counts["object"]) == (1, len(values) - 1)
    assert report.unused == () and report.count(Outcome.RESTORED) == len(values)
    assert _content(path) == ("detector", False, True)
    report = _restore(_detector(), write(tmp_path / "7", 7)[1], "detection", named=False)
    heads = ("classes/", "boxes/", "base_model/class_net", "base_model/box_net")
    assert report.unused and all(key.startswith(heads) for key in report.unused)


def test_running_numbers_of_a_second_network_are_followed_unless_there_are_two(tmp_path):
    detector, stem = _detector(), "efficientnet-lite0/stem"
    changes = {f"{stem}/conv2d/": f"{stem}_1/conv2d_5/", f"{stem}/": f"{stem}_1/"}
    entries = {}
    for own, value in _values(detector):
        before = next((scope for scope in changes if own.name.startswith(scope)), "")
        entries[changes.get(before, "") + own.name.removeprefix(before)] = value
    averages = {f"{name}{AVERAGED}": value + np.float32(1.0) for name, value in entries.items()}
    path = write_named_checkpoint(entries | averages, tmp_path / "model")
    report = _restore(detector, path, "full", named=True)
    assert _matched(detector)["averaged"] == len(_variables(detector)) == report.averaged
    assert report.unused == ()
    assert _stem_row(report) == f"efficientnet-lite0/stem_1/conv2d_5/kernel{AVERAGED}"
    # A stem that could be either of two is not restored, and both are named.
    others = {name: value for name, value in entries.items() if "/stem_1/" in name}
    entries |= {name.replace("/stem_1/", "/stem_2/"): value for name, value in others.items()}
    path = write_named_checkpoint(entries, tmp_path / "third")
    report = _restore(_detector(), path, "full", named=True)
    left = [row for row in report.variables if row.outcome is not Outcome.RESTORED]
    assert [row.outcome for row in left] == [Outcome.MISSING] * 5 and len(report.unused) == 10
    assert "any of efficientnet-lite0/stem_1/conv2d_5/kernel, efficientnet-lite0/stem_2/" in report.summary()


def test_a_checkpoint_becomes_a_detector_as_it_is(tmp_path):
    config = TrainEvalPipelineConfig()
    config.model.efficientdet.CopyFrom(_message(size=64))
    source = _detector()
    path = _named(tmp_path / "named", source, averaged=True)
    labels, folder = tmp_path / "classes.pbtxt", str(tmp_path / "detector")
    labels.write_text(LABELS + "item { id: 3 name: 'c' }\nitem { id: 4 name: 'd' }\n")
    report = import_checkpoint(config, path, label_map=str(labels), model_dir=folder)
    count = len(_variables(source))
    assert report.counts() == {"restored": count, "skipped_shape": 0, "missing": 0, "unused": 0}
    made = load_detector(folder)
    assert _matched(made.model)["averaged"] == count == made.info.extra["moving_averages"]
    assert layout.read_extra(folder, RESTORED_TABLE).count("restored, moving average: ") == count


@cases(
    ("name_based_both_averaging_on", {"averaged": True}, "detection"),
    ("name_based_both_averaging_off", {"averaged": True}, "detection"),
    ("name_based_plain_only_averaging_on", {"averaged": False}, "detection"),
    ("name_based_other_num_classes", {"averaged": True, "classes": 7}, "detection"),
    ("name_based_backbone_only", {"averaged": False, "backbone": True}, "classification"),
    ("object_based", {}, "full"),
    ("object_based_exclude_heads", {}, "detection"),
    ("object_based_other_num_classes_exclude_heads", {"classes": 7}, "detection"),
)
def test_as_many_variables_are_restored_as_by_the_reference(tmp_path, *, case, written, kind):
    detector, named = _detector(D0, averages=not case.endswith("averaging_off")), case.startswith("name")
    path = (_named if named else _objects)(tmp_path, detector, **written)
    _restore(detector, path, kind, named=named, heads=named and kind == "detection")
    assert _matched(detector) == CASES[case]["fact"]["matched"]
