"""The hyper-parameters as a typed record."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

Size = tuple[int, int]
"""Height and width in pixels."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NmsConfigs:
    """Settings of non-maximum suppression.

    Attributes:
        method: "gaussian" for soft, "hard" for greedy suppression.
        iou_thresh: IoU from which a box is suppressed; None: 0.5. Soft suppression does not read it.
        score_thresh: boxes below are dropped; 0: no threshold (hard), or 0.001 (gaussian).
        sigma: of soft suppression; None: 0.5. The operator receives half of it.
        pyfunc: run suppression in NumPy during evaluation.
        max_nms_inputs: number of highest-scoring boxes to suppress; 0: all, each with its best class.
        max_output_size: maximum number of detections per image.
    """

    method: str
    iou_thresh: float | None
    score_thresh: float
    sigma: float | None
    pyfunc: bool
    max_nms_inputs: int
    max_output_size: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class HyperParameters:
    """All hyper-parameters of google/automl's EfficientDet, under their original names.

    Attributes:
        name: of the model.
        act_type: activation.
        image_size: of the network's input, height and width.
        target_size: output size of the random scaling in training; None: `image_size`.
        input_rand_hflip: mirror every second training image.
        jitter_min: smallest random scale of a training image.
        jitter_max: largest random scale of a training image.
        autoaugment_policy: "v0" to "v3", "test" or "randaug"; None: none.
        grid_mask: drop a grid of pixels from training images.
        sample_image: image that training draws detections on.
        map_freq: epochs between evaluations in training; 0: none.
        num_classes: without background.
        seg_num_classes: channels of the segmentation head.
        heads: "object_detection", "segmentation" or both.
        skip_crowd_during_training: train without boxes around crowds.
        label_map: class id to name, the path of a .yaml file, or "coco", "voc" or "waymo".
        max_instances_per_image: rows that ground truth is padded to.
        regenerate_source_id: name images by a hash of their bytes.
        min_level: lowest level of the pyramid.
        max_level: highest level of the pyramid.
        num_scales: anchor scales of an octave.
        aspect_ratios: of anchors: width / height, or factors of width and height.
        anchor_scale: side of an anchor in strides, one for all levels or one for each.
        is_training_bn: synchronise batch norm if `strategy` has several replicas.
        momentum: of SGD, and beta_1 of Adam.
        optimizer: "sgd" or "adam".
        learning_rate: for a batch of 64 images.
        lr_warmup_init: rate at step 0, for any batch size.
        lr_warmup_epoch: epochs of linear warm-up.
        first_lr_drop_epoch: of the stepwise schedule.
        second_lr_drop_epoch: of the stepwise schedule.
        poly_lr_power: of the polynomial schedule.
        clip_gradients_norm: of each gradient, then of all; 0 or less: no clipping.
        num_epochs: length of training.
        data_format: "channels_last" or "channels_first".
        mean_rgb: subtracted from pixels of 0..255.
        stddev_rgb: divisors of the result.
        scale_range: scale normalised pixels by 2 / 255, then subtract 1.
        label_smoothing: of the class loss.
        alpha: of the focal loss.
        gamma: of the focal loss.
        delta: of the Huber loss.
        box_loss_weight: 0: no box loss.
        iou_loss_type: "iou", "giou", "diou", "ciou"; None: no IoU loss.
        iou_loss_weight: of the IoU loss.
        weight_decay: of the L2 loss of kernels.
        strategy: "tpu", "gpus", "multi-gpus" or None.
        mixed_precision: compute in half precision if the device supports it.
        loss_scale: initial scale of the loss in float16; None: none.
        box_class_repeats: number of convolutions in a head.
        fpn_cell_repeats: number of cells in the feature network.
        fpn_num_filters: channels of the feature network and of the heads.
        separable_conv: use depthwise separable convolutions there.
        apply_bn_for_resampling: batch norm after the convolution of a resampling.
        conv_after_downsample: convolve after pooling, not before.
        conv_bn_act_pattern: order of convolution, batch norm, activation, instead of activation first.
        drop_remainder: leave out the last batch if it is not full.
        nms_configs: see `NmsConfigs`.
        tflite_max_detections: maximum detections of the operator in a TFLite file.
        fpn_name: "bifpn", "qufpn" or "bifpn_dyn"; None: "bifpn".
        fpn_weight_method: weighting of a node's inputs; None: "fastattn".
        fpn_config: nodes of a custom feature network.
        survival_prob: of a residual branch of the heads; None: 1.
        img_summary_steps: steps between images in the summaries.
        lr_decay_method: "cosine", "polynomial" or "stepwise".
        moving_average_decay: of the weights' moving average; 0: none.
        ckpt_var_scope: TensorFlow 1 only.
        skip_mismatch: TensorFlow 1 only.
        backbone_name: "efficientnet-" and "b0" to "b8", "l2" or "lite0" to "lite4".
        backbone_config: blocks of a custom backbone.
        var_freeze_expr: regular expression for the names of frozen variables.
        use_keras_model: TensorFlow 1 only.
        dataset_type: not read.
        positives_momentum: of a moving average of the number of positive anchors.
        grad_checkpoint: recompute activations to save memory.
        verbose: of the progress bar.
        save_freq: "epoch", or batches between checkpoints.
    """

    name: str
    act_type: str
    image_size: Size
    target_size: Size | None
    input_rand_hflip: bool
    jitter_min: float
    jitter_max: float
    autoaugment_policy: str | None
    grid_mask: bool
    sample_image: str | None
    map_freq: int
    num_classes: int
    seg_num_classes: int
    heads: tuple[str, ...]
    skip_crowd_during_training: bool
    label_map: Mapping[int, str] | str | None
    max_instances_per_image: int
    regenerate_source_id: bool
    min_level: int
    max_level: int
    num_scales: int
    aspect_ratios: tuple[float | tuple[float, float], ...]
    anchor_scale: float | tuple[float, ...]
    is_training_bn: bool
    momentum: float
    optimizer: str
    learning_rate: float
    lr_warmup_init: float
    lr_warmup_epoch: float
    first_lr_drop_epoch: float
    second_lr_drop_epoch: float
    poly_lr_power: float
    clip_gradients_norm: float
    num_epochs: int
    data_format: str
    mean_rgb: tuple[float, float, float]
    stddev_rgb: tuple[float, float, float]
    scale_range: bool
    label_smoothing: float
    alpha: float
    gamma: float
    delta: float
    box_loss_weight: float
    iou_loss_type: str | None
    iou_loss_weight: float
    weight_decay: float
    strategy: str | None
    mixed_precision: bool
    loss_scale: float | None
    box_class_repeats: int
    fpn_cell_repeats: int
    fpn_num_filters: int
    separable_conv: bool
    apply_bn_for_resampling: bool
    conv_after_downsample: bool
    conv_bn_act_pattern: bool
    drop_remainder: bool
    nms_configs: NmsConfigs
    tflite_max_detections: int
    fpn_name: str | None
    fpn_weight_method: str | None
    fpn_config: Mapping[str, Any] | None
    survival_prob: float | None
    img_summary_steps: int | None
    lr_decay_method: str
    moving_average_decay: float
    ckpt_var_scope: str | None
    skip_mismatch: bool
    backbone_name: str
    backbone_config: Mapping[str, Any] | None
    var_freeze_expr: str | None
    use_keras_model: bool
    dataset_type: str | None
    positives_momentum: float | None
    grad_checkpoint: bool
    verbose: int
    save_freq: str | int
