"""What becomes of the fields of the model's messages."""

from __future__ import annotations

from collections.abc import Mapping

from detection_core.config.support.entry import Support

_KERNEL = "it chose a kernel for an accelerator; the result is the same with and without"
_ANCHORWISE = {"anchorwise_output": "losses are always kept one for each anchor"}
_SIGMOID = (
    "the schema names it, but the Object Detection API never applied it, so its meaning is open; "
    "use {}, with points of the sigmoid"
)
_MINING = "only expected_loss_weights reads it, which is refused"

_DETECTOR = {
    "DetectionModel": Support(
        "builders.model",
        refused={
            "faster_rcnn": "two-stage detectors are not built here; use ssd, for accuracy with "
            "ssd_resnet50_v1_fpn_keras",
            "center_net": "CenterNet is not built here; use ssd",
            "experimental_model": "it only names code that is not in the config; use ssd",
        },
    ),
    "Ssd": Support(
        ("builders.model", "builders.targets", "builders.label_targets"),
        without_effect={
            "inplace_batchnorm_update": "batch norms always update within the training step",
            "return_raw_detections_during_predict": "an exported detector always gives raw detections",
        },
        refused={
            "mask_head_config": "one-stage detectors here find boxes only; remove it",
        },
    ),
    "SsdFeatureExtractor": Support(
        ("builders.backbones", "builders.model"),
        refused={
            "replace_preprocessor_with_placeholder": "pixels are normalised inside the detector, so that "
            "every exported file takes the same images; remove it",
        },
    ),
    "FeaturePyramidNetworks": Support("builders.backbones"),
    "BidirectionalFeaturePyramidNetworks": Support("builders.backbones"),
    "GraphRewriter": Support("tasks.quantize"),
    "Quantization": Support("tasks.quantize"),
}

_HYPERPARAMS = {
    "Hyperparams": Support(
        "builders.hyperparams",
        without_effect={"regularize_depthwise": "the regularizer alone says which kernels are penalised"},
        refused={"group_norm": "no detector here is made with it; use batch_norm"},
        refused_values={"op": {"FC": "the layers here are convolutions; remove the field"}},
    ),
    "Regularizer": Support("builders.hyperparams"),
    "L1Regularizer": Support("builders.hyperparams"),
    "L2Regularizer": Support("builders.hyperparams"),
    "Initializer": Support("builders.hyperparams"),
    "TruncatedNormalInitializer": Support("builders.hyperparams"),
    "VarianceScalingInitializer": Support("builders.hyperparams"),
    "RandomNormalInitializer": Support("builders.hyperparams"),
    "BatchNorm": Support("builders.hyperparams"),
}

_RESIZER = Support(
    "builders.image_resizer",
    refused={
        "convert_to_grayscale": "every extractor here takes three channels, and a grey image is read as "
        "three equal ones; remove it"
    },
)
_RESIZERS = {
    "ImageResizer": Support("builders.image_resizer"),
    "FixedShapeResizer": _RESIZER,
    "KeepAspectRatioResizer": _RESIZER,
    "ConditionalShapeResizer": _RESIZER,
    "PadToMultipleResizer": _RESIZER,
    "IdentityResizer": Support(),
}

_HEADS = {
    "BoxPredictor": Support(
        "builders.heads",
        refused={
            "mask_rcnn_box_predictor": "it is the second stage of faster_rcnn; use "
            "weight_shared_convolutional_box_predictor",
            "rfcn_box_predictor": "R-FCN exists in TensorFlow 1 only; use "
            "weight_shared_convolutional_box_predictor",
        },
    ),
    "ConvolutionalBoxPredictor": Support(
        ("builders.heads", "models.heads.convolutional", "config.messages.box_predictors"),
        refused={
            "apply_sigmoid_to_scores": "scores are made from logits in one place; set "
            "post_processing.score_converter: SIGMOID"
        },
    ),
    "ConvolutionalBoxPredictor.BoxEncodingsClipRange": Support("builders.heads"),
    "WeightSharedConvolutionalBoxPredictor": Support(
        ("builders.heads", "models.heads.weight_shared", "config.messages.box_predictors")
    ),
    "WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange": Support("builders.heads"),
}

_TARGETS = {
    "AnchorGenerator": Support("builders.anchors"),
    "GridAnchorGenerator": Support("builders.anchors"),
    "SsdAnchorGenerator": Support(("builders.anchors", "config.messages.anchors")),
    "MultiscaleAnchorGenerator": Support("builders.anchors"),
    "FlexibleGridAnchorGenerator": Support("builders.anchors"),
    "AnchorGrid": Support("builders.anchors"),
    "BoxCoder": Support("builders.box_coders"),
    "FasterRcnnBoxCoder": Support("builders.box_coders"),
    "KeypointBoxCoder": Support("builders.box_coders"),
    "MeanStddevBoxCoder": Support("builders.box_coders"),
    "SquareBoxCoder": Support("builders.box_coders"),
    "Matcher": Support("builders.matchers"),
    "ArgMaxMatcher": Support("builders.matchers", without_effect={"use_matmul_gather": _KERNEL}),
    "BipartiteMatcher": Support(without_effect={"use_matmul_gather": _KERNEL}),
    "RegionSimilarityCalculator": Support("builders.similarity"),
    "ThresholdedIouSimilarity": Support("builders.similarity"),
    "IouSimilarity": Support(),
    "IoaSimilarity": Support(),
    "NegSqDistSimilarity": Support(),
}

_LOSSES = {
    "Loss": Support(
        "builders.losses",
        without_effect={"min_num_negative_samples": _MINING, "desired_negative_sampling_ratio": _MINING},
        refused={
            "expected_loss_weights": "the schema names two ways to weigh negatives, but the Object Detection "
            "API's published code has neither; use weighted_sigmoid_focal or hard_example_miner",
        },
    ),
    "Loss.EqualizationLoss": Support(
        without_effect={"exclude_prefixes": "it goes with a weight, which is refused"},
        refused={
            "weight": "the Object Detection API's published code reads it and applies nothing, so its "
            "meaning is open; remove it"
        },
    ),
    "HardExampleMiner": Support("builders.losses"),
    "RandomExampleSampler": Support("builders.losses"),
    "ClassificationLoss": Support("builders.losses"),
    "BootstrappedSigmoidClassificationLoss": Support("builders.losses", without_effect=_ANCHORWISE),
    "PenaltyReducedLogisticFocalLoss": Support("builders.losses"),
    "SigmoidFocalClassificationLoss": Support("builders.losses", without_effect=_ANCHORWISE),
    "WeightedDiceClassificationLoss": Support("builders.losses"),
    "WeightedSigmoidClassificationLoss": Support(without_effect=_ANCHORWISE),
    "WeightedSoftmaxClassificationLoss": Support("builders.losses", without_effect=_ANCHORWISE),
    "WeightedSoftmaxClassificationAgainstLogitsLoss": Support("builders.losses", without_effect=_ANCHORWISE),
    "LocalizationLoss": Support("builders.losses"),
    "L1LocalizationLoss": Support(),
    "WeightedGIOULocalizationLoss": Support(),
    "WeightedIOULocalizationLoss": Support(),
    "WeightedL2LocalizationLoss": Support(without_effect=_ANCHORWISE),
    "WeightedSmoothL1LocalizationLoss": Support("builders.losses", without_effect=_ANCHORWISE),
}

_POST_PROCESSING = {
    "PostProcessing": Support("builders.post_processing"),
    "BatchNonMaxSuppression": Support(
        ("builders.post_processing", "config.messages.post_processing"),
        without_effect={"use_static_shapes": _KERNEL, "use_partitioned_nms": _KERNEL, "use_cpu_nms": _KERNEL},
    ),
    "CalibrationConfig": Support(
        "builders.calibration",
        refused={
            "sigmoid_calibration": _SIGMOID.format("function_approximation"),
            "class_id_sigmoid_calibrations": _SIGMOID.format("class_id_function_approximations"),
        },
    ),
    "FunctionApproximation": Support("builders.calibration"),
    "ClassIdFunctionApproximations": Support("builders.calibration"),
    "TemperatureScalingCalibration": Support("builders.calibration"),
    "XYPairs": Support(
        "builders.calibration",
        without_effect={"training_data_type": "it only tells where the points came from"},
    ),
    "XYPairs.XYPair": Support("builders.calibration"),
}

MODEL_SUPPORT: Mapping[str, Support] = {
    **_DETECTOR, **_HYPERPARAMS, **_RESIZERS, **_HEADS, **_TARGETS, **_LOSSES, **_POST_PROCESSING
}  # fmt: skip
