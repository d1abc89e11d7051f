"""Contradictions inside train_config and graph_rewriter."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from detection_core.config.check_fine_tuning import check_fine_tuning
from detection_core.config.messages.augmentations import augmentation_problems
from detection_core.config.problems import Problem, missing_arm
from detection_core.protos.optimizer_pb2 import LearningRate, Optimizer
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

QUANTIZED_BITS = 8  # of weights and of activations


def check_training(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find what is missing in train_config, and schedules that cannot be followed."""
    if not config.HasField("train_config"):
        return
    train = config.train_config
    if train.batch_size < 1:
        yield Problem(path="train_config.batch_size", message="expected 1 or more images, found 0")
    yield from check_fine_tuning(config)
    yield from augmentation_problems(config)
    yield from label_problems(config)
    yield from _optimizer(train.optimizer, "train_config.optimizer")
    if config.eval_config.use_moving_averages and not train.optimizer.use_moving_average:
        message = (
            "expected train_config.optimizer.use_moving_average, as averaged weights are asked for, found"
            " false. Set both or neither."
        )
        yield Problem(path="eval_config.use_moving_averages", message=message)


def label_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find labels that are to be trained on and are not read, or contradict each other."""
    train, reader = config.train_config, config.train_input_reader
    if train.use_multiclass_scores and not reader.load_multiclass_scores:
        message = "expected scores to use, found none; set train_input_reader.load_multiclass_scores: true"
        yield Problem(path="train_config.use_multiclass_scores", message=message)
    if train.use_multiclass_scores and train.merge_multiple_label_boxes:
        message = (
            "expected merge_multiple_label_boxes or use_multiclass_scores, found both; scores tell all"
            " classes of a box already: remove merge_multiple_label_boxes"
        )
        yield Problem(path="train_config.merge_multiple_label_boxes", message=message)
    coder = config.model.ssd.box_coder
    wanted = coder.keypoint_box_coder.num_keypoints
    if coder.HasField("keypoint_box_coder") and reader.num_keypoints != wanted:
        message = (
            f"expected the {wanted} keypoints of model.ssd.box_coder.keypoint_box_coder, found"
            f" {reader.num_keypoints}; set num_keypoints: {wanted}"
        )
        yield Problem(path="train_input_reader.num_keypoints", message=message)


def check_graph_rewriter(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find quantization settings that nothing here can imitate."""
    if not config.graph_rewriter.HasField("quantization"):
        return
    quantization, path = config.graph_rewriter.quantization, "graph_rewriter.quantization"
    for name in ("weight_bits", "activation_bits"):
        bits = getattr(quantization, name)
        if bits != QUANTIZED_BITS:
            message = f"expected {QUANTIZED_BITS}, the only number of bits that is supported, found {bits}"
            yield Problem(path=f"{path}.{name}", message=message)
    if quantization.delay < 0:
        message = f"expected a number of training steps, 0 or more, found {quantization.delay}"
        yield Problem(path=f"{path}.delay", message=message)


def _optimizer(optimizer: Optimizer, path: str) -> Iterator[Problem]:
    arm = optimizer.WhichOneof("optimizer")
    if arm is None:
        yield from missing_arm(optimizer, "optimizer", path)
        return
    rate: LearningRate = getattr(optimizer, arm).learning_rate
    path = f"{path}.{arm}.learning_rate"
    kind = rate.WhichOneof("learning_rate")
    if kind is None:
        yield from missing_arm(rate, "learning_rate", path)
        return
    yield from _SCHEDULES[kind](rate, f"{path}.{kind}")


def _constant(rate: LearningRate, path: str) -> Iterator[Problem]:
    value = rate.constant_learning_rate.learning_rate
    yield from _rate(value, f"{path}.learning_rate")


def _exponential(rate: LearningRate, path: str) -> Iterator[Problem]:
    schedule = rate.exponential_decay_learning_rate
    yield from _rate(schedule.initial_learning_rate, f"{path}.initial_learning_rate")
    if schedule.min_learning_rate > schedule.initial_learning_rate:
        first, lowest = schedule.initial_learning_rate, schedule.min_learning_rate
        message = f"expected at most initial_learning_rate, which is {first:g}, found {lowest:g}"
        yield Problem(path=f"{path}.min_learning_rate", message=message)


def _manual(rate: LearningRate, path: str) -> Iterator[Problem]:
    schedule = rate.manual_step_learning_rate
    yield from _rate(schedule.initial_learning_rate, f"{path}.initial_learning_rate")
    if not schedule.schedule:
        message = (
            "expected at least one entry, found none; a rate that never changes is constant_learning_rate"
        )
        yield Problem(path=f"{path}.schedule", message=message)
    previous = 0
    for i, entry in enumerate(schedule.schedule):
        yield from _rate(entry.learning_rate, f"{path}.schedule[{i}].learning_rate")
        if entry.step <= previous:
            message = f"expected a step above {previous}, later than the one before, found {entry.step}"
            if not i:
                message += "; give its rate to initial_learning_rate and remove the entry"
            yield Problem(path=f"{path}.schedule[{i}].step", message=message)
        previous = entry.step


def _cosine(rate: LearningRate, path: str) -> Iterator[Problem]:
    schedule = rate.cosine_decay_learning_rate
    yield from _rate(schedule.learning_rate_base, f"{path}.learning_rate_base")
    if schedule.warmup_steps > schedule.total_steps:
        message = (
            f"expected at most total_steps, which is {schedule.total_steps}, found {schedule.warmup_steps}"
        )
        yield Problem(path=f"{path}.warmup_steps", message=message)
    if schedule.warmup_steps and schedule.warmup_learning_rate > schedule.learning_rate_base:
        base = schedule.learning_rate_base
        message = (
            f"expected at most learning_rate_base, which is {base:g}, found {schedule.warmup_learning_rate:g}"
        )
        yield Problem(path=f"{path}.warmup_learning_rate", message=message)


def _rate(value: float, path: str) -> Iterator[Problem]:
    if value < 0:
        yield Problem(path=path, message=f"expected a learning rate of 0 or more, found {value:g}")


_SCHEDULES: dict[str, Callable[[LearningRate, str], Iterator[Problem]]] = {
    "constant_learning_rate": _constant,
    "exponential_decay_learning_rate": _exponential,
    "manual_step_learning_rate": _manual,
    "cosine_decay_learning_rate": _cosine,
}
