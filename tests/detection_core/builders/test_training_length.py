from detection_core.builders.training_length import with_steps
from detection_core.config.load import parse_pipeline_config
from detection_core.errors import DataError
from tests.support.cases import refused
from tests.support.record_files import numbered_example, write_records

CONFIG = """
model { ssd { num_classes: 3 image_resizer { fixed_shape_resizer { height: 8 width: 10 } } } }
train_config { batch_size: 4 %s }
train_input_reader { label_map_path: "%s" %s tf_record_input_reader { input_path: "%s" } }
"""


def _config(folder, train, reader=""):
    label_map = folder / "label_map.pbtxt"
    label_map.write_text("item { id: 1 name: 'one' }")
    return parse_pipeline_config(CONFIG % (train, label_map, reader, folder / "all.tfrecord"))


def test_the_examples_are_counted_unless_a_config_is_in_steps(tmp_path):
    write_records(tmp_path / "all.tfrecord", [numbered_example(i) for i in range(23)])
    assert with_steps(_config(tmp_path, "num_epochs: 3")).train_config.num_steps == 17
    sparse = _config(tmp_path, "num_epochs: 3", "sample_1_of_n_examples: 2")
    assert with_steps(sparse).train_config.num_steps == 9
    assert sparse.train_config.num_epochs == 3  # the config itself is left as it is
    (tmp_path / "all.tfrecord").unlink()
    config = _config(tmp_path, "num_steps: 3")
    assert with_steps(config) is config
    refused(DataError, "", with_steps, _config(tmp_path, "num_epochs: 3"))
