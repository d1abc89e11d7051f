"""What a pipeline.config would build, without any data: sizes, parameters, anchors and operations."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import tf_keras

from detection_core.builders.augment import build_augmentations
from detection_core.builders.backbones import BACKBONES
from detection_core.builders.image_resizer import model_image_resizer
from detection_core.builders.input_reader import build_decoding
from detection_core.builders.optimizer import build_optimizer
from detection_core.builders.training_labels import build_label_targets, score_columns
from detection_core.config.messages.extractors import EXTRACTORS
from detection_core.detectors.base import DetectionModel
from detection_core.detectors.ssd.build import build_detection_model
from detection_core.errors import ConfigError, DetectionError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.tasks.starting_weights import fine_tune_options
from detection_core.training.checkpoint_content import TYPES, checkpoint_content
from detection_core.training.checkpoint_file import CheckpointFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class Level:
    """Anchors on one feature map.

    Attributes:
        rows: of the feature map.
        columns: of the feature map.
        anchors: on the whole map.
    """

    rows: int
    columns: int
    anchors: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description:
    """What a config would build.

    Attributes:
        architecture: arm of the model message.
        feature_extractor: its type, as the config names it.
        family: of the backbone.
        neck: what is put on the backbone.
        resizer: arm of the image resizer.
        input_size: rows and columns of the network input.
        classes: without the background.
        parameters: numbers in all variables of the network.
        trainable_parameters: those that training changes.
        flops: floating-point operations of the network for one image.
        anchors: boxes predicted for one image.
        levels: where they are, finest feature map first.
        parts: what the config chose elsewhere: losses, optimizer, ...; name to text.
    """

    architecture: str
    feature_extractor: str
    family: str
    neck: str
    resizer: str
    input_size: tuple[int, int]
    classes: int
    parameters: int
    trainable_parameters: int
    flops: int
    anchors: int
    levels: tuple[Level, ...]
    parts: dict[str, str]

    def data(self) -> dict[str, Any]:
        """Return all of it, JSON-ready."""
        return dataclasses.asdict(self)

    def text(self) -> str:
        """Return all of it as lines for people."""
        rows = [
            ("model", f"{self.architecture}, {self.feature_extractor} ({self.family}, {self.neck})"),
            ("input", f"{self.input_size[0]} x {self.input_size[1]} x 3 from {self.resizer}"),
            ("classes", f"{self.classes:,}"),
            ("parameters", f"{self.parameters:,}, of which {self.trainable_parameters:,} are trained"),
            ("operations", f"{self.flops / 1e9:.2f} GFLOPs an image (two for each multiply-add of a layer)"),
            ("anchors", f"{self.anchors:,}"),
        ]
        rows += [
            ("", f"{level.rows} x {level.columns} x {level.anchors / (level.rows * level.columns):g}")
            for level in self.levels
        ]
        return "\n".join(f"{name:13s}{text}" for name, text in [*rows, *self.parts.items()])


def describe(config: TrainEvalPipelineConfig) -> Description:
    """Build all of a config that needs no data, and say what it is.

    Args:
        config: a checked config.

    Raises:
        ConfigError: when the config cannot be followed.
    """
    resizer = model_image_resizer(config.model)
    _check_training_input(config)
    if config.train_config.HasField("optimizer"):
        build_optimizer(config.train_config.optimizer)
    model = build_detection_model(config.model, seed=None)
    del resizer  # It was built to see that it can be.
    architecture = str(config.model.WhichOneof("model"))
    message = getattr(config.model, architecture)
    entry = BACKBONES[EXTRACTORS[message.feature_extractor.type].backbone]
    levels = _levels(model)
    return Description(
        architecture=architecture,
        feature_extractor=message.feature_extractor.type,
        family=entry.family,
        neck=EXTRACTORS[message.feature_extractor.type].neck,
        resizer=message.image_resizer.WhichOneof("image_resizer_oneof"),
        input_size=model.input_size,
        classes=model.num_classes,
        parameters=_count(model.network.variables),
        trainable_parameters=_count(model.network.trainable_variables),
        flops=count_flops(model.network),
        anchors=int(model.network.output_shape[0][1]),
        levels=levels,
        parts=_parts(config),
    )


def count_flops(network: tf_keras.Model) -> int:
    """Count the operations of a network for one image.

    Convolutions and dense layers count with two operations for each multiply-add, at every place they are
    called: a head shared by five feature maps counts five times. The rest is left out: biases and batch norms
    fold into the convolutions, and activations, sums and resizing are a few percent.

    Args:
        network: with static shapes but for the batch.
    """
    return sum(_layer_flops(layer) for layer in network.layers)


def _layer_flops(layer: Any) -> int:
    kernel = getattr(layer, "depthwise_kernel", None)
    kernel = getattr(layer, "kernel", None) if kernel is None else kernel
    if kernel is None:
        return 0
    outputs = [layer.get_output_at(i).shape for i in range(len(layer.inbound_nodes))]
    places = sum(math.prod(shape[1:-1]) for shape in outputs)
    return int(2 * math.prod(kernel.shape) * places)


def _check_training_input(config: TrainEvalPipelineConfig) -> None:
    """Build what makes training batches of records, as far as that needs none."""
    build_augmentations(config.train_config.data_augmentation_options)
    build_label_targets(config)
    build_decoding(config.train_input_reader, score_columns(config.model))


def _levels(model: DetectionModel) -> tuple[Level, ...]:
    """Return the anchors of each feature map, from the layers that flatten the box codes of one each."""
    name = re.sub(r"_rows_\d+$", "", model.network.output_names[0])
    flattening = [layer for layer in model.network.layers if re.fullmatch(rf"{name}_rows_\d+", layer.name)]
    return tuple(
        Level(rows=layer.input_shape[1], columns=layer.input_shape[2], anchors=layer.output_shape[1])
        for layer in flattening
    )


def _count(variables: Any) -> int:
    return sum(math.prod(variable.shape) for variable in variables)


def _start(config: TrainEvalPipelineConfig) -> str:
    """Say what the checkpoint to start from is, by its files; refuse one that is not what the config says.

    A checkpoint that is not here may be where the training will be.
    """
    path, options = config.train_config.fine_tune_checkpoint, fine_tune_options(config)
    taken = f"taken as a {options.kind} checkpoint of TensorFlow {1 if options.named else 2}"
    try:
        content = checkpoint_content(CheckpointFile(path, names_only=True))
    except DetectionError as error:
        return f"{path}, {taken}; what it is cannot be seen here: {error.message}"
    if content.named != options.named:
        right, kind = ("V1", "name-based") if content.named else ("V2", "object-based")
        raise ConfigError(
            f"expected {right}, as {path} is {kind}, found {'V1' if options.named else 'V2'}; set"
            f" fine_tune_checkpoint_version: {right}",
            where="train_config.fine_tune_checkpoint_version",
        )
    if content.of and options.kind not in TYPES[content.of]:
        raise ConfigError(
            f"expected {' or '.join(TYPES[content.of])}, as {path} is {content.text()}, found"
            f" {options.kind}; correct the type",
            where="train_config.fine_tune_checkpoint_type",
        )
    return f"{path}, {content.text()}, {taken}"


def _parts(config: TrainEvalPipelineConfig) -> dict[str, str]:
    """Say what else the config chose, in its own words."""
    ssd, train = config.model.ssd, config.train_config
    parts = {
        "head": str(ssd.box_predictor.WhichOneof("box_predictor_oneof")),
        "losses": (
            f"{ssd.loss.classification_weight:g} x"
            f" {ssd.loss.classification_loss.WhichOneof('classification_loss')} +"
            f" {ssd.loss.localization_weight:g} x"
            f" {ssd.loss.localization_loss.WhichOneof('localization_loss')}"
        ),
    }
    if train.HasField("optimizer"):
        arm = str(train.optimizer.WhichOneof("optimizer"))
        schedule = getattr(train.optimizer, arm).learning_rate.WhichOneof("learning_rate")
        steps = f"{train.num_steps:,} steps of" if train.num_steps else "no num_steps, which training needs;"
        parts["training"] = f"{steps} {train.batch_size} images, {arm}, {schedule}"
    if train.fine_tune_checkpoint:
        parts["start"] = _start(config)
    if train.data_augmentation_options:
        names = [str(o.WhichOneof("preprocessing_step")) for o in train.data_augmentation_options]
        parts["augmentation"] = ", ".join(names)
    if config.graph_rewriter.HasField("quantization"):
        quantization = config.graph_rewriter.quantization
        parts["quantization"] = (
            f"{quantization.weight_bits}-bit weights, {quantization.activation_bits}-bit activations,"
            f" from step {quantization.delay}"
        )
    return parts
