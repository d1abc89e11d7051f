"""Rules that all detector families share, and contradictions between the messages of a pipeline.config."""

from collections.abc import Iterator, Mapping

from detection_core.config.messages.detector_parts import CLIP_RANGE
from detection_core.config.messages.extractors import type_problems
from detection_core.config.messages.fine_tuning import fine_tuning_problems
from detection_core.config.messages.registered import option_problems
from detection_core.config.messages.sizes import image_size_problems, network_size
from detection_core.config.messages.training import score_problems
from detection_core.config.messages.training_input import reading_problems
from detection_core.config.metric_names import COCO_SET, KEYPOINT_SET, MASK_SETS, measured_sets
from detection_core.detectors.family import extractor_type, family_name, find_family, model_message, no_tflite
from detection_core.detectors.rules import Check, missing_arm
from detection_core.errors import Problem
from detection_core.protos.image_resizer_pb2 import ImageResizer
from detection_core.protos.model_pb2 import DetectionModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.train_pb2 import TrainConfig


def model_resizer(model: DetectionModel) -> tuple[ImageResizer, str]:
    """Return a model's image resizer and its field path.

    Without an `image_resizer` in the config, images are resized to the family's input size. Without that, the
    message is empty. The model's `options` must be valid.
    """
    family, (message, path) = find_family(model), model_message(model)
    resizer = getattr(message, "image_resizer", ImageResizer())
    size = family.input_size(message) if family and not resizer.ListFields() else None
    if size is not None:
        resizer = ImageResizer()
        resizer.fixed_shape_resizer.height, resizer.fixed_shape_resizer.width = size
    return resizer, f"{path}.image_resizer"


def unchecked_resizer(model: DetectionModel) -> tuple[ImageResizer, str]:
    """Do the same as `model_resizer`, but ignore the family's input size if options are invalid."""
    message, path = model_message(model)
    if any(_option_problems(model, path)):
        return getattr(message, "image_resizer", ImageResizer()), f"{path}.image_resizer"
    return model_resizer(model)


def _option_problems(model: DetectionModel, path: str) -> Iterator[Problem]:
    family = find_family(model)
    if family and model.WhichOneof("model") == "experimental_model":
        yield from option_problems(family.options, model.experimental_model, path)


def _resizer_problems(model: DetectionModel, path: str) -> Iterator[Problem]:
    resizer, family = model_resizer(model)[0], find_family(model)
    yield from missing_arm(resizer, "image_resizer_oneof", path)
    size = family.input_size(model_message(model)[0]) if family and not family.other_sizes else None
    if size is not None and network_size(resizer) != size:
        found = resizer.WhichOneof("image_resizer_oneof")
        text = f"expected a resizer to {size[0]} x {size[1]}, which {family_name(model)} takes, found {found}"
        yield Problem(path=path, message=f"{text} to another size; change or remove it")


def _extractor_problems(model: DetectionModel, path: str) -> Iterator[Problem]:
    extractor, family = extractor_type(model_message(model)[0]), find_family(model)
    # Families without the field have no types.
    known = family.extractor_types if family else ()
    yield from type_problems(extractor, path, known) if known else ()


def _common(model: DetectionModel, path: str) -> Iterator[Problem]:
    message, _ = model_message(model)
    family, arm = find_family(model), model.WhichOneof("model")
    # Without a registered family, only the name of an experimental_model can be refused.
    if message is None or (family is None and arm == "experimental_model"):
        return
    path = f"{path}.{arm}"
    if message.HasField("num_classes") and message.num_classes < 1:
        text = f"expected the number of classes without background, found {message.num_classes}"
        yield Problem(path=f"{path}.num_classes", message=text)
    wrong_options = list(_option_problems(model, path))
    yield from wrong_options
    if not wrong_options:
        yield from _resizer_problems(model, f"{path}.image_resizer")
        yield from family.problems(message, path) if family else ()
    if arm != "experimental_model":
        yield from _extractor_problems(model, f"{path}.feature_extractor.type")


def missing_classes_problems(model: DetectionModel) -> Iterator[Problem]:
    """Find a missing number of classes, which is required only to build a detector."""
    message, place = model_message(model)
    if message is not None and not message.HasField("num_classes"):
        text = (
            "expected the number of classes without background, found none; set it, or train with a label"
            " map, which it then follows"
        )
        yield Problem(path=f"{place}.num_classes", message=text)


def _pipeline(config: TrainEvalPipelineConfig, path: str) -> Iterator[Problem]:
    del path  # the root
    yield from shape_metric_problems(config)
    yield from channel_problems(config)
    if not config.HasField("train_config"):
        return
    family = find_family(config.model)
    extractor = extractor_type(model_message(config.model)[0]) if family else ""
    yield from fine_tuning_problems(config.train_config, extractor, family.checkpoints if family else None)
    yield from label_problems(config)
    yield from reading_problems(config.train_config, config.train_input_reader)
    if family and family.with_network is None:
        yield from _stage_problems(config.train_config, family.name)


def _stage_problems(train: TrainConfig, name: str) -> Iterator[Problem]:
    """Find settings of the backbone's stages, which are counted in a detector of one network."""
    for field, unset in (("freeze_backbone_stages", 0), ("backbone_rate_decay", 1.0)):
        if getattr(train, field) != unset:
            text = f"expected {unset:g} for {name}, whose backbone is in two networks, found"
            advice = "use freeze_variables" if unset == 0 else "remove the field"
            message = f"{text} {getattr(train, field):g}; {advice}"
            yield Problem(path=f"train_config.{field}", message=message)


def shape_metric_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find metric sets for masks or keypoints that are not predicted or not read."""
    family = find_family(config.model)
    message, _ = model_message(config.model)
    if config.eval_config.eval_instance_masks and not (family and family.masks(message)):
        text = "expected false, found true: the detector finds no masks; remove it"
        yield Problem(path="eval_config.eval_instance_masks", message=text)
    for i, name in enumerate(measured_sets(config.eval_config)):
        masks = name in MASK_SETS
        if not (masks or name == KEYPOINT_SET) or family is None:
            continue
        if not (family.masks(message) if masks else family.keypoints(message)):
            found = f"found {name!r}; the detector finds no {'masks' if masks else 'keypoints'}"
            text = f"expected a set of metrics that it has a value of, {found}: use {COCO_SET}"
            named = f"metrics_set[{i}]" if i < len(config.eval_config.metrics_set) else "parameterized_metric"
            yield Problem(path=f"eval_config.{named}", message=text)
            continue
        field = "load_instance_masks" if masks else "num_keypoints"
        for reader in config.eval_input_reader[:1]:
            if not getattr(reader, field):
                text = f"expected objects with what {name} compares, found none read; set {field}"
                yield Problem(path=f"eval_input_reader[0].{field}", message=text)


def channel_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find evaluation images with other channels than those that the detector learns from."""
    expected = config.train_input_reader.num_additional_channels
    for i, reader in enumerate(config.eval_input_reader):
        if reader.num_additional_channels != expected:
            text = f"expected {expected}, as in train_input_reader, found {reader.num_additional_channels}"
            yield Problem(path=f"eval_input_reader[{i}].num_additional_channels", message=text)


def label_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find labels that training needs but the reader does not read."""
    yield from score_problems(config.train_config, config.train_input_reader)
    message, path = model_message(config.model)
    family = find_family(config.model)
    if family and family.masks(message) and not config.train_input_reader.load_instance_masks:
        text = "expected true, as the detector learns masks, found false; set load_instance_masks: true"
        yield Problem(path="train_input_reader.load_instance_masks", message=text)
    keypoints = family.keypoints(message) if family else None
    if keypoints is None:
        return
    expected, field = keypoints
    found = config.train_input_reader.num_keypoints
    if not expected and not found:
        message = (
            f"expected the number of keypoints in records for {path}.{field}, found 0; set num_keypoints"
        )
        yield Problem(path="train_input_reader.num_keypoints", message=message)
    elif expected and found != expected:
        message = (
            f"expected the {expected} keypoints of {path}.{field}, found {found}; set num_keypoints:"
            f" {expected}"
        )
        yield Problem(path="train_input_reader.num_keypoints", message=message)


def size_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find a model or a batch above the memory limits; ranges bound only single numbers, not products."""
    message, path = model_message(config.model)
    batch_size = config.train_config.batch_size if config.HasField("train_config") else 1
    problems, size = image_size_problems(*unchecked_resizer(config.model), batch_size)
    yield from problems
    family = find_family(config.model)
    if size is not None and family:
        yield from family.size_problems(message, path, size)


def tflite_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find obstacles to exporting a TensorFlow Lite file with a fixed input."""
    family = find_family(config.model)
    if family and family.tflite:
        yield from family.tflite.problems(*model_message(config.model))
    else:
        yield Problem(path="model", message=no_tflite(family_name(config.model) or "none"))


def clip_range_problems(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find clipped box codes, which training and serving support but the export does not."""
    return (problem for problem in tflite_problems(config) if problem.path.endswith(f".{CLIP_RANGE}"))


CHECKS: Mapping[str, Check] = {"DetectionModel": _common, "TrainEvalPipelineConfig": _pipeline}
