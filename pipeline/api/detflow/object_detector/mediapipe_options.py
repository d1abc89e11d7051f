"""Models, hyper-parameters and options of MediaPipe Model Maker's object detector, and its pipeline.config.

A MobileNetV2 detector is a RetinaNet of levels 3 to 7. Anchors: three scales, the ratios 0.5, 1 and 2, three
strides wide. Boxes are coded without scale factors. Losses: focal with alpha 0.25 and gamma 1.5, and 50 times
Huber with delta 0.1.
Source: https://github.com/google-ai-edge/mediapipe, model_maker, object_detector/model.py.
"""

import dataclasses
import enum
import tempfile

from detection_core.config.load import parse_pipeline_config
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.errors import ConfigError
from detection_core.zoo.networks import find_kind
from detflow.argument_checks import is_number

_STRATEGIES = ("off", "one_device", "mirrored")


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """A model.

    Attributes:
        name: name of the model in detflow.
        input_image_shape: rows, columns and channels of its input.
    """

    name: str
    input_image_shape: tuple[int, int, int]


@enum.unique
class SupportedModels(enum.Enum):
    """MediaPipe's models. Unsupported models are refused on use.

    `MOBILENET_V2` and `MOBILENET_V2_I320` are the Object Detection API's SSD MobileNetV2 FPN-Lite. These are
    RetinaNets with a separable feature pyramid, separable heads of 128 channels, and levels 3 to 7.
    """

    MOBILENET_V2 = ModelSpec("SSD MobileNetV2 FPN-Lite", (256, 256, 3))
    MOBILENET_V2_I320 = ModelSpec("SSD MobileNetV2 FPN-Lite", (320, 320, 3))
    MOBILENET_MULTI_AVG = ModelSpec("", (256, 256, 3))
    MOBILENET_MULTI_AVG_I384 = ModelSpec("", (384, 384, 3))

    @classmethod
    def get(cls, spec: "SupportedModels") -> ModelSpec:
        """Return a model.

        Raises:
            ConfigError: when it is not supported, naming the nearest model.
        """
        if not isinstance(spec, cls) or not spec.value.name:
            raise ConfigError(
                f"expected {cls.MOBILENET_V2} or {cls.MOBILENET_V2_I320}, found {spec}; MobileNet-MultiHW-AVG"
                f" is not built here, the nearest is {cls.MOBILENET_V2_I320}",
                where="supported_model",
            )
        return spec.value


@dataclasses.dataclass
class HParams:
    """Hyper-parameters of the float training.

    Attributes:
        learning_rate: for a batch of 256 images; scaled with the batch size.
        batch_size: images per step.
        epochs: passes over the images.
        steps_per_epoch: steps per epoch; None: whole batches of the images.
        shuffle: shuffle the images.
        export_dir: output folder; a temporary one by default.
        distribution_strategy: off, one_device or mirrored, without effect: all GPUs are used.
        num_gpus: -1, all of them.
        tpu: "", because TPUs are not supported.
        cosine_decay_epochs: length of the learning rate's cosine decay; None: a constant rate.
        cosine_decay_alpha: final learning rate as a fraction: 0, or 1 for a constant rate.
    """

    learning_rate: float = 0.3
    batch_size: int = 8
    epochs: int = 30
    steps_per_epoch: int | None = None
    shuffle: bool = False
    export_dir: str = dataclasses.field(default_factory=lambda: tempfile.mkdtemp(prefix="detflow-"))
    distribution_strategy: str = "off"
    num_gpus: int = -1
    tpu: str = ""
    cosine_decay_epochs: int | None = None
    cosine_decay_alpha: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(
            self, "learning_rate", "batch_size", "epochs", "steps_per_epoch", "cosine_decay_epochs"
        )
        if self.distribution_strategy.lower() not in _STRATEGIES:
            raise _refusal("distribution_strategy", ", ".join(_STRATEGIES), self.distribution_strategy)
        if self.num_gpus != -1:
            raise _refusal("num_gpus", "-1, all of them", self.num_gpus)
        if self.tpu:
            raise _refusal("tpu", "''; there is no training on TPUs here", self.tpu)
        if self.cosine_decay_alpha not in (0, 1):
            raise _refusal("cosine_decay_alpha", "0 or 1", self.cosine_decay_alpha)


@dataclasses.dataclass
class QATHParams:
    """Hyper-parameters of quantization-aware training.

    Attributes:
        learning_rate: for a batch of 256 images; scaled with the batch size.
        batch_size: images per step.
        epochs: passes over the images.
        decay_steps: steps after which the learning rate is multiplied by `decay_rate`.
        decay_rate: decay factor.
    """

    learning_rate: float = 0.3
    batch_size: int = 8
    epochs: int = 15
    decay_steps: int = 8
    decay_rate: float = 0.96

    def __post_init__(self) -> None:
        _check_positive(self, "learning_rate", "batch_size", "epochs", "decay_steps", "decay_rate")


@dataclasses.dataclass
class ModelOptions:
    """Options of a model.

    Attributes:
        l2_weight_decay: L2 factor; half of it times the kernels' squares is added to the loss.
    """

    l2_weight_decay: float = 3.0e-05

    def __post_init__(self) -> None:
        if not is_number(self.l2_weight_decay) or self.l2_weight_decay < 0:
            raise _refusal("l2_weight_decay", "0 or more", self.l2_weight_decay)


@dataclasses.dataclass
class ObjectDetectorOptions:
    """Options of `ObjectDetector.create`.

    Attributes:
        supported_model: the model.
        model_options: None: the defaults.
        hparams: None: the defaults.
        start_from: starting weights, `zoo:NAME` or a path; "": random weights. A detflow extension:
            MediaPipe's weights are not downloaded.
    """

    supported_model: SupportedModels
    model_options: ModelOptions | None = None
    hparams: HParams | None = None
    start_from: str = ""


def _check_positive(parameters: HParams | QATHParams, *names: str) -> None:
    for name in names:
        value = getattr(parameters, name)
        if value is not None and not (is_number(value) and value > 0):
            raise _refusal(name, "a number above 0", value)


def _refusal(name: str, expected: str, found: object) -> ConfigError:
    return ConfigError(f"expected {expected}, found {found!r}", where=name)


IMAGES_OF_A_RATE = 256
_MOMENTUM = 0.9
_MOST_BOXES = 100
_REST = """
train_config { data_augmentation_options { random_horizontal_flip { } } }
eval_config { metrics_set: "coco_detection_metrics" include_metrics_per_category: true }
"""


def make_config(
    spec: ModelSpec, options: ModelOptions, hparams: HParams, *, classes: int, images: int
) -> PipelineConfig:
    """Return the config of a float training, with empty readers.

    `classes` does not count the background; `images` are those to train on.

    Raises:
        ConfigError: for a number that is out of range, naming the field.
    """
    height, width, _ = spec.input_image_shape
    text = find_kind("mediapipe").fill(
        classes, height=height, width=width, weight_decay=repr(options.l2_weight_decay)
    )
    config = parse_pipeline_config(text + _REST, where=spec.name)
    per_epoch = hparams.steps_per_epoch or max(1, images // hparams.batch_size)
    _set_length(config, hparams.batch_size, per_epoch * hparams.epochs)
    rate = hparams.learning_rate * hparams.batch_size / IMAGES_OF_A_RATE
    schedule = config.train_config.optimizer.momentum_optimizer.learning_rate
    if hparams.cosine_decay_epochs and hparams.cosine_decay_alpha == 0:
        cosine = schedule.cosine_decay_learning_rate
        cosine.learning_rate_base, cosine.total_steps = rate, per_epoch * hparams.cosine_decay_epochs
        cosine.warmup_steps = 0
    else:
        schedule.constant_learning_rate.learning_rate = rate
    config.train_input_reader.shuffle = hparams.shuffle
    return config


def make_quantized_config(config: PipelineConfig, hparams: QATHParams, *, images: int) -> PipelineConfig:
    """Return the config of quantization-aware training.

    The float detector's config is not modified.
    """
    result = PipelineConfig()
    result.CopyFrom(config)
    for field in ("optimizer", "fine_tune_checkpoint", "fine_tune_checkpoint_type"):
        result.train_config.ClearField(field)
    _set_length(result, hparams.batch_size, max(1, images // hparams.batch_size) * hparams.epochs)
    rate = result.train_config.optimizer.momentum_optimizer.learning_rate.exponential_decay_learning_rate
    rate.initial_learning_rate = hparams.learning_rate * hparams.batch_size / IMAGES_OF_A_RATE
    rate.decay_steps, rate.decay_factor, rate.staircase = hparams.decay_steps, hparams.decay_rate, True
    quantization = result.graph_rewriter.quantization
    quantization.delay, quantization.weight_bits, quantization.activation_bits = 0, 8, 8
    return result


def _set_length(config: PipelineConfig, batch_size: int, steps: int) -> None:
    train = config.train_config
    train.batch_size, train.num_steps, train.max_number_of_boxes = batch_size, steps, _MOST_BOXES
    train.optimizer.momentum_optimizer.momentum_optimizer_value = _MOMENTUM
    train.optimizer.use_moving_average = False
