"""Describe the detector of a pipeline.config without data: sizes, parameters, anchors and operations."""

import dataclasses
import math
from typing import Any

import tf_keras

from detection_core.builders import train_plan
from detection_core.builders.detector import configured_model
from detection_core.config.check import check_classes_filled_in
from detection_core.config.model_fields import configured_classes, fine_tune_checkpoint
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.detectors.base import InputShape, count_parameters
from detection_core.detectors.family import FamilyDescription
from detection_core.errors import ConfigError, DetectionError
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.checkpoint_variables import TYPES, checkpoint_content
from detection_core.training.precision import Precision, choose_precision
from detection_core.zoo.starting_points import is_named

_LEFT_OUT = "those of the label map; what follows is for one"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description:
    """Description of a config's detector.

    Attributes:
        architecture: name of the detector family.
        model: the family's own description.
        resizer: kind of the image resizer, a field of its oneof.
        input_shape: rows and columns of the network input.
        classes: number without the background. None if only the label map defines it; sizes then assume one
            class.
        parameters: number of values in all variables.
        trainable_parameters: number of values that training changes.
        flops: floating-point operations of the networks for one image; 0 if they depend on the image.
        parts: other choices of the config, such as the optimizer; name to text.
    """

    architecture: str
    model: FamilyDescription
    resizer: str
    input_shape: InputShape
    classes: int | None
    parameters: int
    trainable_parameters: int
    flops: int
    parts: dict[str, str]

    def data(self) -> dict[str, Any]:
        """Return the description, JSON-ready; the family's entries are merged in."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        model, shape = fields.pop("model"), fields.pop("input_shape")
        return {**model.data, **fields, "input_size": shape.size or (shape.smallest, shape.largest)}

    def text(self) -> str:
        """Return the description as readable lines."""
        low, high = (
            f"{rows} x {columns}" for rows, columns in (self.input_shape.smallest, self.input_shape.largest)
        )
        size = low if self.input_shape.size else f"{low} to {high}"
        rows = [
            ("model", f"{self.architecture}, {self.model.summary}"),
            ("input", f"{size} x 3 from {self.resizer}"),
            ("classes", _LEFT_OUT if self.classes is None else f"{self.classes:,}"),
            ("parameters", f"{self.parameters:,}, of which {self.trainable_parameters:,} are trained"),
        ]
        if self.flops:
            flops = f"{self.flops / 1e9:.2f} GFLOPs an image (two for each multiply-add of a layer)"
            rows.append(("operations", flops))
        return "\n".join(f"{name:13s}{text}" for name, text in [*rows, *self.model.rows, *self.parts.items()])


def describe(config: CheckedConfig) -> Description:
    """Build all of a config that needs no data, and describe it; ConfigError for an unusable config."""
    given, config = configured_classes(config), check_classes_filled_in(config, 1)
    train_plan.build_without_data(config)
    configured = configured_model(config)
    detector = configured.build(seed=None)
    model = configured.describe(detector)
    flops = 0
    if detector.input_shape.size is not None:
        flops = sum(count_flops(net) * detector.runs_per_image(n) for n, net in detector.networks.items())
    return Description(
        architecture=configured.architecture,
        model=model,
        resizer=configured.resizer_name,
        input_shape=detector.input_shape,
        classes=given,
        parameters=count_parameters(detector.variables),
        trainable_parameters=count_parameters(detector.trainable_variables),
        flops=flops,
        parts=dict(model.parts) | _parts(config),
    )


def count_flops(network: tf_keras.Model) -> int:
    """Count the operations of a network for one image.

    Convolutions and dense layers count two operations for each multiply-add, at each call. So a head shared
    by five feature maps counts five times. Biases and batch norms are left out, because they fold into the
    convolutions. Activations, sums and resizing are left out, because they are a few percent.

    Args:
        network: its shapes are static except for the batch.
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


def _start(config: CheckedConfig) -> str:
    """Describe the starting checkpoint from its files; refuse one that contradicts the config.

    A missing checkpoint is accepted, because it may exist on the training machine.
    """
    path, options = fine_tune_checkpoint(config), train_plan.build_fine_tune_options(config)
    if is_named(path):
        return f"{path}, published weights, taken as a {options.kind} checkpoint"
    taken = f"taken as a {options.kind} checkpoint of TensorFlow {1 if options.named else 2}"
    try:
        names = configured_model(config).family.require_checkpoint_names()
        content = checkpoint_content(CheckpointFile(path, names_only=True), names)
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


def _parts(config: CheckedConfig) -> dict[str, str]:
    outline, parts = train_plan.build_training_outline(config), {}
    if outline.optimizer:
        steps = "no num_steps, which training needs;"
        if outline.num_steps or outline.num_epochs:
            length = f"{outline.num_steps:,} steps" if outline.num_steps else f"{outline.num_epochs:g} epochs"
            steps = f"{length} of"
        parts["training"] = f"{steps} {outline.batch_size} images, {outline.optimizer}, {outline.schedule}"
        precision = choose_precision(outline.precision)
        if precision is not Precision.FLOAT32:
            chosen = "by the device" if outline.precision is None else "by train_config.precision"
            parts["precision"] = f"{precision.dtype}, chosen {chosen}; weights and losses are float32"
    if fine_tune_checkpoint(config):
        parts["start"] = _start(config)
    if outline.augmentations:
        parts["augmentation"] = ", ".join(outline.augmentations)
    if outline.quantization:
        parts["quantization"] = (
            f"{outline.quantization.weight_bits}-bit weights,"
            f" {outline.quantization.activation_bits}-bit activations, from step {outline.quantization.delay}"
        )
    return parts
