"""Choose everything for a first workflow from a survey of the data set."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.config.label_map_file import find_label_map
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.datasets.layout_search import find_layouts
from detection_core.datasets.layouts import Layout, is_by_ratio, name_splits
from detection_core.datasets.readers import find_reader
from detection_core.datasets.survey import Survey, survey
from detection_core.detectors.family import family_of, model_message
from detection_core.errors import DataError, ModelError, StorageError, one_line
from detection_core.zoo.cache import fetch_model, find_model_files
from detection_core.zoo.fine_tuning import Choice
from detection_core.zoo.networks import Network, PublishedModel, Speed
from pipeline.init import network_choice, settings_choice
from pipeline.init.hardware import Hardware
from pipeline.init.tile_choice import choose_tiles, tiled
from pipeline.init.training_choice import (
    choose_batch,
    choose_training,
    choose_validation,
    num_steps,
    schedule,
)

# Checkpoints that are not fetched: origin -> name, and how to start from them.
_NOT_FETCHED = {
    "automl": ("google/automl's", 'the checkpoint\'s prefix and fine_tune_checkpoint_type to "full"'),
    "tensorflow_1": (
        "TensorFlow 1's",
        "the prefix model.ckpt in it, fine_tune_checkpoint_version to V1 and fine_tune_checkpoint_type to"
        ' "detection"',
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartingWeights:
    """Whether the initial weights are on this machine; otherwise the problem and how to solve it."""

    found: bool
    reason: str
    remedy: str = ""


def find_weights(network: Network, *, wanted: bool) -> StartingWeights:
    """Find a network's published weights, if wanted; fetch them if they are not cached."""
    if network.kind.weights:
        owner, values = _NOT_FETCHED[network.kind.weights]
        remedy = (
            f"where its archive lies unpacked, set train_config.fine_tune_checkpoint to {values}, and take a"
            " tenth of the steps and of the learning rate"
        )
        return StartingWeights(found=False, reason=f"{owner} checkpoints are not fetched", remedy=remedy)
    if not isinstance(network, PublishedModel):
        return StartingWeights(found=False, reason="nobody publishes weights of this network")
    if not wanted:
        return StartingWeights(found=False, reason="--from-scratch is given")
    here = find_model_files(network) is not None
    try:
        fetched = fetch_model(network)
    except (ModelError, StorageError) as error:
        return StartingWeights(
            found=False,
            reason=f"the weights of {network.name} cannot be had here",
            remedy=f"{error.where}: {error.message}. Once they are here, run `detflow init` again",
        )
    how = "lie" if here else "were fetched"
    return StartingWeights(found=True, reason=f"the published weights {how} in {fetched.folder}")


_METRICS = "coco_detection_metrics"
_QUANTIZATION = {"quantization": {"delay": 0, "weight_bits": 8, "activation_bits": 8}}
_LISTED_CLASSES = 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """The user's choices: a network ("" to choose one), and one of `SPEEDS` (None: by the machine)."""

    data: str
    folder: str
    model: str = ""
    speed: Speed | None = None
    weights: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A first workflow.

    Attributes:
        layouts: the data sets found; the first one is used.
        seen: survey of that data set.
        network: with its input and anchors.
        weights: the initial weights, or why there are none.
        config: the whole pipeline.config, without a number of classes.
        config_choices: its settings, with reasons.
        settings: entries of the settings file, with reasons.
    """

    request: Request
    layouts: tuple[Layout, ...]
    seen: Survey
    hardware: Hardware
    network: network_choice.NetworkChoice
    weights: StartingWeights
    config: PipelineConfig
    config_choices: tuple[Choice, ...]
    settings: tuple[Choice, ...]

    def value(self, path: str) -> Any:
        """Return the value chosen for a field of the config or a key of the settings."""
        return next(c.value for c in (*self.config_choices, *self.settings) if c.path == path)


def make_plan(request: Request, hardware: Hardware) -> Plan:
    """Survey a data set and choose everything for its first workflow.

    Raises:
        ConfigError: for an unknown network.
        DataError: when no data set is found, listing the supported ones; or when it has no annotations.
    """
    layouts = find_layouts(request.data)
    layout, seen = _look(layouts[0])
    splits, why_splits = _splits(layout, seen)
    network, why = network_choice.choose_network(seen, hardware, name=request.model, speed=request.speed)
    weights = find_weights(network, wanted=request.weights)
    if not weights.found and not request.model:
        rung = network_choice.choose_speed(request.speed, hardware)
        network, why = network_choice.from_scratch(weights.reason, network_choice.found_shapes(seen)[0], rung)
    tiles = choose_tiles(seen, network, hardware)
    chosen = network_choice.fit_network(network, why, tiled(seen, tiles), hardware)
    train_images = max(1, seen.count("train", splits)) * (tiles.records if tiles else 1)
    batch = choose_batch(train_images, chosen, hardware)
    training = choose_training(seen, train_images, chosen, batch, weights=weights.found)
    family = family_of(chosen.config.model)
    quantized = family.quantization is not None
    held_out = {name: seen.count(name, splits) for name in splits if name != "train"}
    in_config = (
        *(choice for choice in training if not choice.path.startswith("train.")),
        choose_validation(num_steps(training), seen.count_annotated("eval", splits)),
    )
    return Plan(
        request=request,
        layouts=(layout, *layouts[1:]),
        seen=seen,
        hardware=hardware,
        network=chosen,
        weights=weights,
        config=_config(chosen, in_config, quantized=quantized),
        config_choices=(_classes(seen, model_message(chosen.config.model)[1]), *chosen.choices, *in_config),
        settings=(
            *settings_choice.data_choices(layout, splits, why_splits, seen),
            *((tiles.setting,) if tiles else ()),
            Choice(path="model.config", value=PIPELINE_CONFIG),
            *_start(weights, training),
            *settings_choice.evaluate_choices(held_out, quantized=quantized, finds=chosen.network.kind.finds),
            *(settings_choice.quantize_choices(num_steps(training), schedule(training)) if quantized else ()),
            *(settings_choice.export_choices(seen, min(held_out.values())) if family.tflite else ()),
        ),
    )


def _look(layout: Layout) -> tuple[Layout, Survey]:
    """Survey a data set; leave out splits without objects, for example a competition's test images."""
    label_map = find_label_map(layout.path) if find_reader(layout.format).read_named else None
    class_names = label_map.texts_by_id if label_map else None
    seen = survey(layout.path, layout.format, layout.splits, class_names=class_names)
    filled = {
        name: where for name, where in layout.splits.items() if seen.count_annotated(name, layout.splits)
    }
    empty = sorted(set(layout.splits) - set(filled))
    if is_by_ratio(layout.splits) or not empty:
        return layout, seen
    evidence = f"{layout.evidence}; no objects in {', '.join(empty)}, left out"
    try:
        return _look(dataclasses.replace(layout, splits=name_splits(filled), evidence=evidence))
    except DataError as e:
        raise DataError(
            f"expected objects for training and for measuring, found none in {', '.join(empty)}; name only"
            f" the folder of the annotated images; it is then divided ({e.message})",
            where=layout.path,
        ) from e


def _splits(layout: Layout, seen: Survey) -> tuple[Mapping[str, Any], str]:
    if not is_by_ratio(layout.splits):
        counts = ", ".join(f"{seen.count(name, layout.splits):,} {name}" for name in layout.splits)
        return layout.splits, f"as the data set is divided: {counts}"
    return settings_choice.choose_ratios(seen)


def _config(
    chosen: network_choice.NetworkChoice, choices: tuple[Choice, ...], *, quantized: bool
) -> PipelineConfig:
    fields = {choice.path: choice.value for choice in choices}
    measured = list(chosen.config.eval_config.metrics_set) or [_METRICS]
    rewriter = {"graph_rewriter": _QUANTIZATION} if quantized else {}
    return apply_overrides(chosen.config, {**fields, "eval_config.metrics_set": measured, **rewriter})


def _classes(seen: Survey, where: str) -> Choice:
    names = list(seen.classes)
    listed = ", ".join(one_line(name, 40) for name in names[:_LISTED_CLASSES]) + (
        ", ..." if len(names) > _LISTED_CLASSES else ""
    )
    return Choice(
        path=where,
        value=len(names),
        reason=f"num_classes is left out: it follows the label map, which now has {len(names):,}: {listed}",
    )


def _start(weights: StartingWeights, training: tuple[Choice, ...]) -> list[Choice]:
    """Return the section `train`, with comments on where to get weights."""
    if weights.found:
        return [
            dataclasses.replace(choice, reason=f"{choice.reason}; {weights.reason}")
            if choice.path == "train.start_from"
            else choice
            for choice in training
            if choice.path.startswith("train.")
        ]
    remedy = f". {weights.remedy}" if weights.remedy else ""
    return [Choice(path="train.start_from", value="", reason=f"from scratch, as {weights.reason}{remedy}")]
