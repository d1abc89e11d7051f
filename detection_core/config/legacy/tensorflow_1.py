"""Names in TensorFlow 1 configs that were renamed or removed, and their replacements."""

from collections.abc import Mapping

# TensorFlow 1 extractors that TensorFlow 2 has under the same name with the suffix `_keras`.
_WITH_COUNTERPART = (
    "faster_rcnn_inception_resnet_v2",
    "faster_rcnn_resnet101",
    "faster_rcnn_resnet152",
    "faster_rcnn_resnet50",
    "ssd_mobilenet_v1",
    "ssd_mobilenet_v1_fpn",
    "ssd_mobilenet_v2",
    "ssd_mobilenet_v2_fpn",
    "ssd_resnet101_v1_fpn",
    "ssd_resnet152_v1_fpn",
    "ssd_resnet50_v1_fpn",
)
COUNTERPARTS: Mapping[str, str] = {name: f"{name}_keras" for name in _WITH_COUNTERPART}

_TRAIN = "weights of TensorFlow 1 fit, but train with them before you use them"
_HALVED = f"TensorFlow 2 halves the regions in the second stage, which TensorFlow 1 did not; {_TRAIN}"
SECOND_STAGES: Mapping[str, str] = {
    **{f"faster_rcnn_resnet{depth}_keras": _HALVED for depth in (50, 101, 152)},
    "faster_rcnn_inception_resnet_v2_keras": "TensorFlow 2 pads the regions in the second stage, which"
    f" TensorFlow 1 did not; {_TRAIN}",
}
"""Counterparts that compute something else from the same weights, and what to do about it."""

KEPT = (
    "faster_rcnn_inception_v2",
    "ssd_inception_v2",
    "ssd_inception_v3",
    "ssd_mobiledet_cpu",
    "ssd_mobiledet_dsp",
    "ssd_mobiledet_edgetpu",
    "ssd_mobiledet_gpu",
    "ssd_mobilenet_edgetpu",
    "ssd_mobilenet_v3_large",
    "ssd_mobilenet_v3_small",
)
"""TensorFlow 1 extractors that TensorFlow 2 lacks, and that are built here under their name."""

WITHOUT_COUNTERPART: Mapping[str, str] = {
    "embedded_ssd_mobilenet_v1": "ssd_mobilenet_v1_keras",
    "faster_rcnn_nas": "faster_rcnn_inception_resnet_v2_keras",
    "faster_rcnn_pnas": "faster_rcnn_inception_resnet_v2_keras",
    "ssd_mobilenet_v1_ppn": "ssd_mobilenet_v1_keras",
    "ssd_mobilenet_v2_mnasfpn": "ssd_mobilenet_v2_fpn_keras",
    "ssd_pnasnet": "ssd_resnet50_v1_fpn_keras",
    "ssd_resnet101_v1_ppn": "ssd_resnet101_v1_fpn_keras",
    "ssd_resnet152_v1_ppn": "ssd_resnet152_v1_fpn_keras",
    "ssd_resnet50_v1_ppn": "ssd_resnet50_v1_fpn_keras",
    "ssd_spaghettinet": "ssd_mobiledet_edgetpu",
}
"""TensorFlow 1 extractors that are not built -> nearest replacement, if possible with the same anchors."""

RENAMED_METRICS: Mapping[str, str] = {
    "oid_challenge_object_detection_metrics": "oid_challenge_detection_metrics",
    "open_images_V2_detection_metrics": "oid_V2_detection_metrics",
    "open_images_detection_metrics": "oid_V2_detection_metrics",
    "open_images_metrics": "oid_V2_detection_metrics",
    "pascal_voc_metrics": "pascal_voc_detection_metrics",
    "weighted_pascal_voc_metrics": "weighted_pascal_voc_detection_metrics",
}
"""Old names of the sets in `eval_config.metrics_set` -> current names."""

BATCH_NORM_TRAINABLE = "model.ssd.feature_extractor.batch_norm_trainable"
"""A field of one-stage configs of 2018 that was removed from the schema in the same year."""

_BY_CONVERT = "`detflow config convert` writes it"


def without_counterpart(extractor: str) -> str:
    """Return the advice for an extractor of `WITHOUT_COUNTERPART`."""
    return (
        f"expected an extractor that TensorFlow 2 has, found {extractor!r}, which has no counterpart; "
        f"set type: {WITHOUT_COUNTERPART[extractor]!r}, which comes nearest, and train again"
    )


def with_counterpart(extractor: str) -> str:
    """Return the advice for an extractor of `COUNTERPARTS`."""
    return (
        f"expected an extractor that TensorFlow 2 has, found {extractor!r}; its name is "
        f"{COUNTERPARTS[extractor]} now: {_BY_CONVERT}"
    )


def renamed_metrics(name: str) -> str:
    """Return the advice for a metric set of `RENAMED_METRICS`."""
    return f"its name is {RENAMED_METRICS[name]} now: {_BY_CONVERT}"


_SAMPLING = (
    "it went into model.ssd.loss with expected_loss_weights, which the Object Detection API's published code "
    "never had; remove it, and weigh negatives by weighted_sigmoid_focal or hard_example_miner"
)

REMOVED_FIELDS: Mapping[tuple[str, str], str] = {
    ("Ssd", "weight_regression_loss_by_score"): "it was taken out of the schema; remove it, and weigh "
    "objects by image/object/weight in the records",
    ("Ssd", "use_expected_classification_loss_under_sampling"): _SAMPLING,
    ("Ssd", "min_num_negative_samples"): _SAMPLING,
    ("Ssd", "desired_negative_sampling_ratio"): _SAMPLING,
    ("SsdFeatureExtractor", "batch_norm_trainable"): "it was taken out of the schema, and batch norms are "
    "trained unless model.ssd.freeze_batchnorm is true; `detflow config convert` removes it",
    ("SsdFeatureExtractor", "spaghettinet_arch_name"): "it is for ssd_spaghettinet, which exists in "
    f"TensorFlow 1 only; remove it and set type: {WITHOUT_COUNTERPART['ssd_spaghettinet']!r}, the nearest",
}
"""Message and name of a field that this schema lacks -> the reason, and what to do."""
