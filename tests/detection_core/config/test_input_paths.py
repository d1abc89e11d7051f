from detection_core.config.input_paths import point_at_examples, with_readers_of
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from tests.support.configs import CENTER, PYRAMID, TWO_STAGE


def test_readers_point_at_the_splits_and_a_missing_one_is_added():
    config = load_pipeline_config(PYRAMID)
    pointed = point_at_examples(config, "/data/examples", eval_split="test")
    train, evaluation = pointed.train_input_reader, pointed.eval_input_reader[0]
    assert list(train.tf_record_input_reader.input_path) == ["/data/examples/Split-train/*.tfrecord*"]
    assert list(evaluation.tf_record_input_reader.input_path) == ["/data/examples/Split-test/*.tfrecord*"]
    assert train.label_map_path == evaluation.label_map_path == "/data/examples/label_map.pbtxt"
    assert not evaluation.shuffle  # as in the config
    assert config == load_pipeline_config(PYRAMID)
    [evaluation] = point_at_examples(load_pipeline_config(CENTER), "/data").eval_input_reader
    assert (evaluation.shuffle, evaluation.num_epochs) == (False, 1)


def test_one_of_several_readers_and_no_weights_are_kept_and_the_log_says_so(caplog):
    pointed = point_at_examples(load_pipeline_config(TWO_STAGE), "/data")
    assert [reader.name for reader in pointed.eval_input_reader] == ["day"]
    assert "of 2 eval_input_reader the first is kept, and reads split eval" in caplog.text
    config = load_pipeline_config(PYRAMID)
    config.train_input_reader.tf_record_input_reader.input_path.append("more")
    config.train_input_reader.sample_from_datasets_weights.extend([0.9, 0.1])
    pointed = point_at_examples(config, "/data")
    assert not pointed.train_input_reader.sample_from_datasets_weights
    assert "sample_from_datasets_weights [0.9, 0.1] has no effect: split train" in caplog.text
    caplog.clear()
    point_at_examples(pointed, "/data")
    assert not caplog.records


def test_a_config_reads_what_another_one_reads():
    config = parse_pipeline_config("model { ssd { num_classes: 3 } } eval_input_reader { shuffle: true }")
    other = point_at_examples(parse_pipeline_config("train_config { batch_size: 5 }"), "/examples")
    read = with_readers_of(config, other)
    assert read.model == config.model and not read.HasField("train_config")
    assert read.train_input_reader == other.train_input_reader
    assert list(read.eval_input_reader) == list(other.eval_input_reader)
    assert config.eval_input_reader[0].shuffle
