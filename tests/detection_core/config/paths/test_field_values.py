from detection_core.config.paths.field_values import scalar_list, scalar_value
from detection_core.protos.input_reader_pb2 import InputReader, TFRecordInputReader
from detection_core.protos.train_pb2 import V2, TrainConfig
from tests.support.cases import cases, config_refused

TRAIN = TrainConfig.DESCRIPTOR.fields_by_name
WEIGHTS = InputReader.DESCRIPTOR.fields_by_name["sample_from_datasets_weights"]
INPUT_PATH = TFRecordInputReader.DESCRIPTOR.fields_by_name["input_path"]


@cases(
    ("batch_size", " 8 ", 8),
    ("batch_size", 8, 8),
    ("batch_size", 4294967295, 4294967295),
    ("replicas_to_aggregate", "-3", -3),
    ("bias_grad_multiplier", "-.5e-1", -0.05),
    ("bias_grad_multiplier", 2, 2),
    ("sync_replicas", "TRUE", True),
    ("sync_replicas", False, False),
    ("sync_replicas", "0", False),
    ("fine_tune_checkpoint_version", "V2", V2),
    ("fine_tune_checkpoint_version", "2", V2),
    ("fine_tune_checkpoint", " a 'b' ", " a 'b' "),
    ("fine_tune_checkpoint", "'a b'", "a b"),
    ("fine_tune_checkpoint", '"a\\n\\303\\251"', "a\né"),
    ("fine_tune_checkpoint", "C:\\models\\n", "C:\\models\\n"),
    ("fine_tune_checkpoint", 3, "3"),
)
def test_values_are_read_by_the_kind_of_the_field(*, name, value, expected):
    assert scalar_value(TRAIN[name], value, where="") == expected


@cases(
    ("batch_size", "8.0"),
    ("batch_size", -1),
    ("batch_size", 4294967296),
    ("batch_size", True),
    ("replicas_to_aggregate", 2147483648),
    ("bias_grad_multiplier", "inf"),
    ("bias_grad_multiplier", 1e39),
    ("sync_replicas", "2"),
    ("fine_tune_checkpoint_version", "v2"),
    ("fine_tune_checkpoint_version", 3),
    ("fine_tune_checkpoint", "'\\xff'"),
)
def test_values_of_another_kind_are_refused(*, name, value):
    error = config_refused("expected .* found ", lambda: scalar_value(TRAIN[name], value, where="here"))
    assert error.where == "here"


@cases(
    *((WEIGHTS, value, [0.5, 1]) for value in ("0.5,1", "[0.5, 1]", [0.5, "1"])),
    *((WEIGHTS, value, [2]) for value in (2, "2")),
    (WEIGHTS, "[]", []),
    (INPUT_PATH, "a,b", ["a,b"]),
    (INPUT_PATH, "data/[ab]-*.tfrecord", ["data/[ab]-*.tfrecord"]),
    (INPUT_PATH, "[a, b]", ["a", "b"]),
    (INPUT_PATH, "['a,b', \"c\"]", ["a,b", "c"]),
    (INPUT_PATH, ["a", "b,c"], ["a", "b,c"]),
)
def test_lists_of_numbers_and_texts(*, field, value, expected):
    assert scalar_list(field, value, where="") == expected
