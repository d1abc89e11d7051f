"""Build and describe detectors from FasterRcnn messages."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.allowed_values import SIDE
from detection_core.builders import detector_parts
from detection_core.builders.heads import build_hyperparams
from detection_core.config.messages.extractors import LAST_BACKBONE_LEVEL
from detection_core.config.messages.sizes import network_size
from detection_core.config.model_fields import foreground_classes
from detection_core.detectors.base import InputShape
from detection_core.detectors.family import FamilyDescription
from detection_core.families.faster_rcnn import network
from detection_core.families.faster_rcnn.check import finds_masks
from detection_core.families.faster_rcnn.extractors import EXTRACTORS, has_pyramid, pyramid_levels, strides
from detection_core.families.faster_rcnn.losses import FirstStageCriterion, SecondStageCriterion
from detection_core.families.faster_rcnn.model import FasterRcnnModel, FasterRcnnParts
from detection_core.families.faster_rcnn.pyramid import INPUT_MULTIPLE, Pyramid, padded_side
from detection_core.families.faster_rcnn.stages import ProposalOptions, lay_anchors
from detection_core.ops import iou as iou_ops
from detection_core.ops.nms import NmsOptions
from detection_core.parts.box_coders import FasterRcnnBoxCoder
from detection_core.parts.layers.static_shapes import static_shapes
from detection_core.parts.losses import ClassificationLoss, SmoothL1Loss, SoftmaxLoss
from detection_core.parts.matchers import ArgMaxMatcher
from detection_core.parts.necks import FpnOptions
from detection_core.parts.samplers import BalancedSampler
from detection_core.parts.targets import AnchorTargetAssigner
from detection_core.protos import faster_rcnn_pb2, losses_pb2
from detection_core.protos.faster_rcnn_pb2 import FasterRcnn, FasterRcnnFeatureExtractor
from detection_core.protos.image_resizer_pb2 import ImageResizer
from detection_core.structures import COLOURS

BOX_CODER = FasterRcnnBoxCoder(y_scale=10.0, x_scale=10.0, height_scale=5.0, width_scale=5.0)
"""The coder of both stages, which no field changes."""


def build_faster_rcnn(
    message: faster_rcnn_pb2.FasterRcnn, where: str, seed: int | None = 0, channels: int = COLOURS
) -> FasterRcnnModel:
    """Build the detector that a checked message describes; see `Family.build`."""
    del where  # Nothing here is refused.
    generator = detector_parts.build_anchor_generator(message.first_stage_anchor_generator)
    networks = _build_networks(message, generator.num_anchors_per_location(), seed, channels)
    parts = FasterRcnnParts(
        num_classes=foreground_classes(message),
        stages=message.number_of_stages,
        input_shape=_input_shape(message.image_resizer),
        preprocessing=network.BACKBONES[EXTRACTORS[message.feature_extractor.type].backbone].preprocessing,
        crop_size=message.initial_crop_size,
        input_multiple=INPUT_MULTIPLE if has_pyramid(message.feature_extractor) else 1,
        proposing=ProposalOptions(
            generator=generator,
            box_coder=BOX_CODER,
            nms=NmsOptions(
                score_threshold=message.first_stage_nms_score_threshold,
                iou_threshold=message.first_stage_nms_iou_threshold,
                max_detections_per_class=message.first_stage_max_proposals,
                max_total_detections=message.first_stage_max_proposals,
            ),
            clip_anchors=message.clip_anchors_to_image,
        ),
        post_processing=detector_parts.build_post_processing(message.second_stage_post_processing),
        first_criterion=FirstStageCriterion(
            assigner=AnchorTargetAssigner(
                similarity=iou_ops.iou,
                matcher=_matcher(0.7, 0.3, force=True),
                box_coder=BOX_CODER,
                num_classes=1,
            ),
            sampler=BalancedSampler(positive_fraction=message.first_stage_positive_balance_fraction),
            sample_size=message.first_stage_minibatch_size,
            classification=SoftmaxLoss(logit_scale=1.0),
            localization=SmoothL1Loss(delta=1.0),
            classification_weight=message.first_stage_objectness_loss_weight,
            localization_weight=message.first_stage_localization_loss_weight,
        ),
        second_criterion=_build_second_criterion(message),
        regularizers={name: built.regularizers for name, built in networks.items()},
    )
    return FasterRcnnModel({name: built.network for name, built in networks.items()}, parts)


@static_shapes()
def _build_networks(
    message: faster_rcnn_pb2.FasterRcnn, anchors_per_location: Sequence[int], seed: int | None, channels: int
) -> Mapping[str, network.BuiltNetwork]:
    extractor = message.feature_extractor
    settings = network.NetworkSettings(
        backbone=network.BACKBONES[EXTRACTORS[extractor.type].backbone],
        stride=extractor.first_stage_features_stride,
        pyramid=_pyramid(extractor) if has_pyramid(extractor) else None,
        freeze_batch_norm=not extractor.batch_norm_trainable,
        seed=seed,
    )
    head = network.ProposalHead(
        hyperparams=build_hyperparams(message.first_stage_box_predictor_conv_hyperparams),
        depth=message.first_stage_box_predictor_depth,
        kernel_size=message.first_stage_box_predictor_kernel_size,
        atrous_rate=message.first_stage_atrous_rate,
        anchors_per_location=anchors_per_location,
    )
    size: network.Size = network_size(message.image_resizer) or (None, None)
    if settings.pyramid is not None:
        size = padded_side(size[0], INPUT_MULTIPLE), padded_side(size[1], INPUT_MULTIPLE)
    networks = {"proposals": network.build_proposal_network(settings, head, (*size, channels))}
    if message.number_of_stages == 1:
        return networks
    depth = networks["proposals"].network.outputs[0].shape[-1]
    pool = (message.maxpool_kernel_size, message.maxpool_stride)
    networks["regions"] = network.build_region_network(settings, depth, message.initial_crop_size, pool)
    shape = tuple(networks["regions"].network.outputs[0].shape[1:])
    predictor = message.second_stage_box_predictor.mask_rcnn_box_predictor
    networks["boxes"] = network.build_box_network(settings, _box_head(message, predictor), shape)
    if finds_masks(message):
        networks["masks"] = network.build_mask_network(settings, _mask_head(message, predictor), shape)
    return networks


def _pyramid(message: FasterRcnnFeatureExtractor) -> Pyramid:
    levels = pyramid_levels(message)
    options = FpnOptions(
        min_level=levels.start,
        max_level=levels.stop - 1,
        backbone_max_level=LAST_BACKBONE_LEVEL,
        channels=message.fpn.additional_layer_depth,
    )
    return Pyramid(
        options=options,
        hyperparams=build_hyperparams(message.conv_hyperparams),
        override=message.override_base_feature_extractor_hyperparams,
    )


def _input_shape(resizer: ImageResizer) -> InputShape:
    """Return the allowed sizes of images; only one resizer of images of different sizes bounds them."""
    size = network_size(resizer)
    if size is not None:
        return InputShape.fixed(size)
    bound = SIDE.high
    if resizer.HasField("keep_aspect_ratio_resizer"):
        bound = resizer.keep_aspect_ratio_resizer.max_dimension
    return InputShape(smallest=(1, 1), largest=(int(bound), int(bound)))


def _box_head(message: faster_rcnn_pb2.FasterRcnn, predictor: Any) -> network.BoxHead:
    return network.BoxHead(
        hyperparams=build_hyperparams(predictor.fc_hyperparams),
        num_classes=message.num_classes,
        class_agnostic=predictor.share_box_across_classes,
        dropout=1.0 - predictor.dropout_keep_probability if predictor.use_dropout else None,
    )


def _mask_head(message: faster_rcnn_pb2.FasterRcnn, predictor: Any) -> network.MaskHead:
    return network.MaskHead(
        hyperparams=build_hyperparams(predictor.conv_hyperparams),
        num_classes=message.num_classes,
        class_agnostic=predictor.masks_are_class_agnostic,
        size=(predictor.mask_height, predictor.mask_width),
        depth=predictor.mask_prediction_conv_depth,
        num_layers=predictor.mask_prediction_num_conv_layers,
        convolve_then_upsample=predictor.convolve_then_upsample_masks,
    )


def _matcher(matched: float, unmatched: float, *, force: bool) -> ArgMaxMatcher:
    return ArgMaxMatcher(
        matched_threshold=matched,
        unmatched_threshold=unmatched,
        negatives_lower_than_unmatched=True,
        force_match_for_each_row=force,
    )


def _build_second_criterion(message: faster_rcnn_pb2.FasterRcnn) -> SecondStageCriterion:
    weights: dict[str, Any] = {
        "classification_weight": message.second_stage_classification_loss_weight,
        "localization_weight": message.second_stage_localization_loss_weight,
    }
    miner = message.hard_example_miner if message.HasField("hard_example_miner") else None
    return SecondStageCriterion(
        assigner=AnchorTargetAssigner(
            similarity=iou_ops.iou,
            matcher=_matcher(0.5, 0.5, force=False),
            box_coder=BOX_CODER,
            num_classes=foreground_classes(message),
        ),
        sampler=BalancedSampler(positive_fraction=message.second_stage_balance_fraction),
        sample_size=message.second_stage_batch_size,
        classification=_second_classification(message),
        localization=SmoothL1Loss(delta=1.0),
        **weights,
        mask_weight=message.second_stage_mask_prediction_loss_weight,
        miner=detector_parts.build_hard_example_miner(losses_pb2.Loss(**weights, hard_example_miner=miner)),
    )


def _second_classification(message: faster_rcnn_pb2.FasterRcnn) -> ClassificationLoss:
    """Build the loss of the second stage's classes: cross entropy if the config names none."""
    if not message.HasField("second_stage_classification_loss"):
        return SoftmaxLoss(logit_scale=1.0)
    return detector_parts.build_classification_loss(message.second_stage_classification_loss)


def anchor_boxes(message: FasterRcnn, where: str) -> np.ndarray | None:
    """Return the anchors of a checked message; see `AnchorSupport.boxes`."""
    del where  # Nothing here is refused.
    size = network_size(message.image_resizer)
    if size is None:
        return None
    multiple = INPUT_MULTIPLE if has_pyramid(message.feature_extractor) else 1
    rows, columns = (-(-side // multiple) * multiple for side in size)
    shapes = [(-(-rows // stride), -(-columns // stride)) for stride in strides(message.feature_extractor)]
    generator = detector_parts.build_anchor_generator(message.first_stage_anchor_generator)
    anchors: np.ndarray = lay_anchors(generator, shapes, size).numpy()
    return anchors


def describe_faster_rcnn(message: FasterRcnn, detector: FasterRcnnModel) -> FamilyDescription:
    """Describe a detector that was built from a message."""
    extractor = message.feature_extractor.type
    loss = message.second_stage_classification_loss.WhichOneof("classification_loss") or "weighted_softmax"
    first = (
        f"{message.first_stage_objectness_loss_weight:g} x weighted_softmax +"
        f" {message.first_stage_localization_loss_weight:g} x weighted_smooth_l1"
    )
    second = (
        f"{message.second_stage_classification_loss_weight:g} x {loss} +"
        f" {message.second_stage_localization_loss_weight:g} x weighted_smooth_l1"
    )
    parts = {"first stage": first}
    if detector.parts.stages > 1:
        parts |= {
            "head": str(message.second_stage_box_predictor.WhichOneof("box_predictor_oneof")),
            "losses": second,
        }
    family, stages = network.BACKBONES[EXTRACTORS[extractor].backbone].family, detector.parts.stages
    maps = list(strides(message.feature_extractor))
    counts = list(detector.parts.proposing.generator.num_anchors_per_location())
    anchors = [f"{count} every {stride} pixels" for stride, count in zip(maps, counts, strict=True)]
    proposals = message.first_stage_max_proposals
    neck, number = ", fpn" if len(maps) > 1 else "", "1 stage" if stages == 1 else f"{stages} stages"
    return FamilyDescription(
        summary=f"{extractor} ({family}{neck}, {number})",
        rows=[
            *(("" if place else "anchors", text) for place, text in enumerate(anchors)),
            ("proposals", f"up to {proposals:,}"),
        ],
        data={
            "feature_extractor": extractor,
            "family": family,
            "stages": stages,
            "strides": maps,
            "anchors_per_location": counts,
            "proposals": proposals,
        },
        parts=parts,
    )
