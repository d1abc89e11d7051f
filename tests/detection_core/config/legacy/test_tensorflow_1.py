from detection_core.config.legacy import tensorflow_1
from detection_core.config.legacy.tensorflow_1 import COUNTERPARTS, KEPT, REMOVED_FIELDS, RENAMED_METRICS
from detection_core.config.load import parse_pipeline_config
from detection_core.config.messages.evaluation import MEASURED
from detection_core.config.messages.extractors import EXTRACTORS
from tests.support.cases import cases, config_refused

# Extractors that TensorFlow 2 has, and that a name of TensorFlow 1 may lead to.
TENSORFLOW_2 = {
    "faster_rcnn_inception_resnet_v2_keras", "faster_rcnn_resnet101_keras", "faster_rcnn_resnet152_keras",
    "faster_rcnn_resnet50_keras", "ssd_mobilenet_v1_fpn_keras", "ssd_mobilenet_v1_keras",
    "ssd_mobilenet_v2_fpn_keras", "ssd_mobilenet_v2_keras", "ssd_resnet101_v1_fpn_keras",
    "ssd_resnet152_v1_fpn_keras", "ssd_resnet50_v1_fpn_keras",
}  # fmt: skip


def test_every_counterpart_exists_and_no_name_is_old_and_new():
    assert set(COUNTERPARTS.values()) == TENSORFLOW_2
    assert set(tensorflow_1.WITHOUT_COUNTERPART.values()) <= {*TENSORFLOW_2, *KEPT}
    assert not set(COUNTERPARTS) & set(tensorflow_1.WITHOUT_COUNTERPART)
    assert set(KEPT) <= set(EXTRACTORS) and not set(KEPT) & {*COUNTERPARTS, *tensorflow_1.WITHOUT_COUNTERPART}
    assert {name for name in TENSORFLOW_2 if name.startswith("ssd_")} <= set(EXTRACTORS)
    assert set(RENAMED_METRICS.values()) <= set(MEASURED)
    assert not set(RENAMED_METRICS) & set(MEASURED)


def test_a_message_names_what_to_do():
    assert "`detflow config convert` writes it" in tensorflow_1.with_counterpart("ssd_mobilenet_v1")
    assert "set type: 'ssd_mobiledet_edgetpu'" in tensorflow_1.without_counterpart("ssd_spaghettinet")
    renamed = tensorflow_1.renamed_metrics("pascal_voc_metrics")
    assert renamed.startswith("its name is pascal_voc_detection_metrics now")
    *_, name = tensorflow_1.BATCH_NORM_TRAINABLE.split(".")
    assert "`detflow config convert` removes it" in REMOVED_FIELDS["SsdFeatureExtractor", name]


@cases(*REMOVED_FIELDS)
def test_a_removed_field_is_refused_with_its_line_and_what_became_of_it(*, message, name):
    place = {"Ssd": "ssd", "SsdFeatureExtractor": "ssd { feature_extractor"}[message]
    text = f"model {{ {place} {{\n {name}: 'true'" + " }" * (place.count("{") + 2)
    error = config_refused("", lambda: parse_pipeline_config(text, where="old.config"))
    assert error.where == "old.config:2"
    assert f"no field '{name}'; {REMOVED_FIELDS[message, name]}" in error.message
