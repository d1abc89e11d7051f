"""Build and describe detectors from CenterNet messages."""

import dataclasses
from collections.abc import Iterator

import tf_keras

from detection_core.builders.detector_parts import (
    build_classification_loss,
    build_localization_loss,
    build_nms_options,
)
from detection_core.config.label_map_file import load_label_map
from detection_core.config.messages.sizes import fixed_size
from detection_core.data.label_map import LabelMap
from detection_core.detectors.family import FamilyDescription
from detection_core.errors import ConfigError
from detection_core.families.center_net.backbones import TrackedLayers
from detection_core.families.center_net.decoding import KeypointTask, Refinement
from detection_core.families.center_net.extractors import EXTRACTORS, STRIDE
from detection_core.families.center_net.losses import CenterNetCriterion, KeypointLosses
from detection_core.families.center_net.model import CenterNetModel, CenterNetParts, InputScaling
from detection_core.families.center_net.network import (
    BOX_OFFSET,
    BOX_SCALE,
    OBJECT_CENTER,
    Head,
    build_feature_maps,
    build_heads,
    depth_head,
    keypoint_heads,
    number_backbone,
)
from detection_core.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.parts.layers.static_shapes import static_shapes
from detection_core.protos.center_net_pb2 import CenterNet
from detection_core.structures import COLOURS, FIRST_CLASS

DEFAULT_CHANNELS, DEFAULT_KERNEL = 256, 3
DEFAULT_DEVIATION = 1.0
"""Of keypoints that `keypoint_label_to_std` does not name."""


@static_shapes()
def build_center_net(
    message: CenterNet, where: str, seed: int | None = 0, channels: int = COLOURS
) -> CenterNetModel:
    """Build the detector that a checked message describes; see `Family.build`.

    Without a seed, for a detector that is only inspected, keypoint tasks do without a label map.

    Raises:
        ConfigError: when a keypoint task's class is not in the label map, or there is no label map.
    """
    labels = keypoint_labels(message, where, inspected=seed is None)
    tasks = tuple(
        _task(task, own) for task, own in zip(message.keypoint_estimation_task, labels, strict=True)
    )
    _check_center_weights(message, tasks, where)
    heads = tuple(_heads(message, tasks))
    size = fixed_size(message.image_resizer)
    layers = TrackedLayers(layers=NetworkLayers(hyperparams=LayerHyperparams(), seed=seed))
    inputs = tf_keras.Input((*size, channels), name="image")
    maps = build_feature_maps(message.feature_extractor, inputs, layers)
    network = tf_keras.Model(inputs, build_heads(heads, maps, layers), name="detector")
    number_backbone(network, message.feature_extractor.type, layers.paths)
    parts = CenterNetParts(
        num_classes=message.num_classes,
        input_size=size,
        scaling=InputScaling(
            blue_first=message.feature_extractor.bgr_ordering,
            means=tuple(message.feature_extractor.channel_means) or (0.0, 0.0, 0.0),
            deviations=tuple(message.feature_extractor.channel_stds) or (1.0, 1.0, 1.0),
            scaling=EXTRACTORS[message.feature_extractor.type].scaling,
        ),
        heads=heads,
        max_detections=message.object_center_params.max_box_predictions,
        finds_boxes=message.HasField("object_detection_task"),
        nms=(
            build_nms_options(message.post_processing.batch_non_max_suppression)
            if message.HasField("post_processing")
            else None
        ),
        keypoints=tasks,
        criterion=_criterion(message, tasks),
        paths=layers.paths,
    )
    return CenterNetModel(network, parts)


def _check_center_weights(message: CenterNet, tasks: tuple[KeypointTask, ...], where: str) -> None:
    """Refuse another number of weights than the keypoints that the label map has."""
    weights = message.object_center_params.keypoint_weights_for_center
    if weights and len(weights) != len(tasks[0].indices):
        raise ConfigError(
            f"expected a weight for each of the {len(tasks[0].indices)} keypoints of the label map, found"
            f" {len(weights)}; give one for each",
            where=f"{where}.object_center_params.keypoint_weights_for_center",
        )


def _heads(message: CenterNet, tasks: tuple[KeypointTask, ...]) -> Iterator[Head]:
    separable = message.use_depthwise

    def head(name: str, outputs: int, params: CenterNet.PredictionHeadParams, bias: float = 0.0) -> Head:
        return Head(
            name=name,
            outputs=outputs,
            channels=tuple(params.num_filters) or (DEFAULT_CHANNELS,),
            kernels=tuple(params.kernel_sizes) or (DEFAULT_KERNEL,),
            bias=bias,
            separable=separable,
        )

    centers, boxes = message.object_center_params, message.object_detection_task
    yield head(OBJECT_CENTER, message.num_classes, centers.center_head_params, bias=centers.heatmap_bias_init)
    if message.HasField("object_detection_task"):
        yield head(BOX_SCALE, 2, boxes.scale_head_params)
        yield head(BOX_OFFSET, 2, boxes.offset_head_params)
    for own, task in zip(message.keypoint_estimation_task, tasks, strict=True):
        heatmap, offset, regression = keypoint_heads(task.name)
        count = len(task.indices)
        yield head(heatmap, count, own.heatmap_head_params, bias=own.heatmap_bias_init)
        yield head(regression, 2 * count, own.regress_head_params)
        yield head(offset, 2 * count if own.per_keypoint_offset else 2, own.offset_head_params)
        if task.depths:
            yield head(depth_head(task.name), task.depths, CenterNet.PredictionHeadParams())


def _task(message: CenterNet.KeypointEstimation, labels: "KeypointLabels") -> KeypointTask:
    deviations = tuple(message.keypoint_label_to_std.get(label, DEFAULT_DEVIATION) for label in labels.names)
    return KeypointTask(
        name=message.task_name,
        class_index=labels.class_index,
        indices=labels.indices,
        deviations=deviations,
        offset_radius=message.offset_peak_radius,
        depths=int(message.predict_depth) * (len(deviations) if message.per_keypoint_depth else 1),
        refinement=Refinement(
            score_threshold=message.keypoint_candidate_score_threshold,
            candidates=message.num_candidates_per_keypoint,
            window=message.peak_max_pool_kernel_size,
            unmatched_score=message.unmatched_keypoint_score,
            box_scale=message.box_scale,
            search_scale=message.candidate_search_scale,
            ranking=message.candidate_ranking_mode,
            distance_offset=message.score_distance_offset,
            distance_multiplier=message.score_distance_multiplier,
            deviations=tuple(message.std_dev_multiplier * deviation for deviation in deviations),
            rescored=message.rescore_instances,
            rescoring_threshold=message.rescoring_threshold,
            clipped=message.clip_out_of_frame_keypoints,
        ),
    )


def _criterion(message: CenterNet, tasks: tuple[KeypointTask, ...]) -> CenterNetCriterion:
    centers, boxes = message.object_center_params, message.object_detection_task
    return CenterNetCriterion(
        num_classes=message.num_classes,
        min_overlap=centers.min_box_overlap_iou,
        classification=build_classification_loss(centers.classification_loss),
        localization=(
            build_localization_loss(boxes.localization_loss)
            if message.HasField("object_detection_task")
            else None
        ),
        center_weights=tuple(centers.keypoint_weights_for_center),
        weights={
            OBJECT_CENTER: centers.object_center_loss_weight,
            BOX_SCALE: boxes.task_loss_weight * boxes.scale_loss_weight,
            BOX_OFFSET: boxes.task_loss_weight * boxes.offset_loss_weight,
        },
        keypoints=tuple(
            KeypointLosses(
                task=task,
                classification=build_classification_loss(own.loss.classification_loss),
                localization=build_localization_loss(own.loss.localization_loss),
                weights=(
                    own.task_loss_weight * own.keypoint_heatmap_loss_weight,
                    own.task_loss_weight * own.keypoint_offset_loss_weight,
                    own.task_loss_weight * own.keypoint_regression_loss_weight,
                ),
                depth_weight=own.task_loss_weight * own.keypoint_depth_loss_weight,
            )
            for own, task in zip(message.keypoint_estimation_task, tasks, strict=True)
        ),
    )


FIELD = "keypoint_label_map_path"


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeypointLabels:
    """The keypoints of a class.

    Attributes:
        class_index: in [0, C).
        indices: of the keypoints in records.
        names: of the keypoints.
    """

    class_index: int
    indices: tuple[int, ...]
    names: tuple[str, ...]


def keypoint_labels(message: CenterNet, where: str, *, inspected: bool) -> list[KeypointLabels]:
    """Return the keypoints of each task of a message.

    A detector that is only `inspected` does without a label map: its keypoints are those that
    `keypoint_label_to_std` names, of class 0.

    Raises:
        ConfigError: when there is no label map, or it has no keypoints of a task's class.
    """
    if not message.keypoint_estimation_task:
        return []
    try:
        label_map = load_label_map(message.keypoint_label_map_path)
    except ConfigError as error:
        if inspected:
            return _guessed(message)
        raise ConfigError(
            f"expected a label map with the keypoints of each class, found none: {error.message}; set it",
            where=f"{where}.{FIELD}",
        ) from error
    return [
        _of_class(label_map, task, f"{where}.keypoint_estimation_task[{i}]")
        for i, task in enumerate(message.keypoint_estimation_task)
    ]


def _guessed(message: CenterNet) -> list[KeypointLabels]:
    found: list[KeypointLabels] = []
    first = 0
    for task in message.keypoint_estimation_task:
        names = tuple(sorted(task.keypoint_label_to_std)) or ("keypoint",)
        indices = tuple(range(first, first + len(names)))
        found.append(KeypointLabels(class_index=0, indices=indices, names=names))
        first += len(names)
    return found


def _of_class(label_map: LabelMap, task: CenterNet.KeypointEstimation, where: str) -> KeypointLabels:
    name = task.keypoint_class_name
    for item in label_map.items:
        if item.keypoints and name in (item.name, item.display_name):
            return KeypointLabels(
                class_index=item.id - FIRST_CLASS,
                indices=tuple(keypoint.id for keypoint in item.keypoints),
                names=tuple(keypoint.label for keypoint in item.keypoints),
            )
    known = [item.display_name or item.name for item in label_map.items if item.keypoints]
    raise ConfigError(
        f"expected a class of the label map with keypoints, {', '.join(known[:10]) or 'which has none'},"
        f" found {name[:80]!r}; correct the name, or add keypoints to its item",
        where=f"{where}.keypoint_class_name",
    )


def describe_center_net(message: CenterNet, detector: CenterNetModel) -> FamilyDescription:
    """Describe a detector that was built from a message."""
    extractor, parts = message.feature_extractor.type, detector.parts
    entry = EXTRACTORS[extractor]
    centers, boxes = message.object_center_params, message.object_detection_task
    rows, columns = (side // STRIDE for side in parts.input_size)
    kind = centers.classification_loss.WhichOneof("classification_loss")
    losses = [(centers.object_center_loss_weight, kind)]
    if parts.finds_boxes:
        losses.append((boxes.task_loss_weight, boxes.localization_loss.WhichOneof("localization_loss")))
    backbone = " and ".join(name for name in (entry.backbone, entry.neck) if name)
    keypoints = {task.name: len(task.indices) for task in parts.keypoints}
    suppresses = parts.nms is not None
    return FamilyDescription(
        summary=f"{extractor} ({backbone})",
        rows=[
            ("heatmap", f"{rows} x {columns}, {'with' if suppresses else 'without'} suppression"),
            *(("keypoints", f"{count} of {name}") for name, count in keypoints.items()),
        ],
        data={
            "feature_extractor": extractor,
            "backbone": backbone,
            "heatmap": (rows, columns),
            "suppresses": suppresses,
            "keypoints": keypoints,
        },
        parts={
            "heads": ", ".join(head.name for head in parts.heads),
            "losses": " + ".join(f"{weight:g} x {loss}" for weight, loss in losses),
        },
    )
