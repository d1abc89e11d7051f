import re

from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.field_texts import field_texts
from detection_core.config.paths.overrides import apply_overrides
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

TEXT = """
model { ssd { num_classes: 3 image_resizer { fixed_shape_resizer { height: 64 width: 64 } } } }
train_config {
  batch_size: 8
  data_augmentation_options { random_horizontal_flip {} }
  data_augmentation_options { random_adjust_brightness { max_delta: 0.1 } }
  freeze_variables: "a" freeze_variables: "b"
  fine_tune_checkpoint_version: V2
  from_detection_checkpoint: true
}
eval_config { super_categories { key: "animal" value: "cat,dog" } }
"""


def test_every_field_that_is_set_has_its_path_and_value_and_overrides_take_them():
    assert field_texts(parse_pipeline_config(TEXT)) == {
        "model.ssd.num_classes": "3",
        "model.ssd.image_resizer.fixed_shape_resizer.height": "64",
        "model.ssd.image_resizer.fixed_shape_resizer.width": "64",
        "train_config.batch_size": "8",
        "train_config.data_augmentation_options[0].random_horizontal_flip": "{}",
        "train_config.data_augmentation_options[1].random_adjust_brightness.max_delta": "0.100000001",
        "train_config.freeze_variables": "[a, b]",
        "train_config.fine_tune_checkpoint_version": "V2",
        "train_config.from_detection_checkpoint": "true",
        "eval_config.super_categories[animal]": "cat,dog",
    }
    config = parse_pipeline_config(TEXT)
    texts = {re.sub(r"\[\d\]", "[+]", path): text for path, text in field_texts(config).items()}
    listed = {path: text for path, text in texts.items() if "super" not in path}
    again = apply_overrides(TrainEvalPipelineConfig(), listed)
    assert again.train_config == config.train_config and again.model == config.model
