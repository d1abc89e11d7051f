from detection_core.config import suggestions
from detection_core.config.suggestions import describe_unknown_field, near_names
from detection_core.protos.optimizer_pb2 import Optimizer
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.ssd_pb2 import Ssd, SsdFeatureExtractor
from detection_core.protos.train_pb2 import TrainConfig
from tests.support.cases import cases


def test_wrong_names_and_values_are_likened_to_what_is_near():
    assert near_names("min_aera", ["max_area", "min_area", "probability"]) == ["min_area", "max_area"]
    assert near_names("zzz", ["max_area"]) == []
    field = TrainConfig.DESCRIPTOR.fields_by_name["fine_tune_checkpoint_version"]
    assert suggestions.describe_wrong_value(field, "UNKNWN").endswith("found UNKNWN; did you mean UNKNOWN?")
    near = describe_unknown_field("num_clases", Ssd.DESCRIPTOR)
    assert near.startswith("Ssd has no field 'num_clases'; did you mean num_classes? It has: add_background")
    far = describe_unknown_field("batch_size", TrainEvalPipelineConfig.DESCRIPTOR)
    assert "batch_size is a field of EvalConfig, TrainConfig." in far
    assert "did you mean" not in far
    text = describe_unknown_field("batch_norm_trainable", SsdFeatureExtractor.DESCRIPTOR)
    assert "`detflow config convert` removes it" in text and "has:" not in text
    assert "; it has: bifpn" in describe_unknown_field("zzz", SsdFeatureExtractor.DESCRIPTOR)
    text = suggestions.describe_expected(TrainConfig.DESCRIPTOR.fields_by_name["optimizer"])
    assert text == f"a message {{...}} of Optimizer: {', '.join(sorted(Optimizer.DESCRIPTOR.fields_by_name))}"


@cases(
    ("batch_size", "a whole number from 0 to 4294967295"),
    ("replicas_to_aggregate", "a whole number from -2147483648 to 2147483647"),
    ("bias_grad_multiplier", "a number"),
    ("sync_replicas", "true or false"),
    ("fine_tune_checkpoint", "a text in quotes"),
    ("fine_tune_checkpoint_version", "one of UNKNOWN, V1, V2"),
)
def test_what_a_field_takes_in_words(*, name, expected):
    assert suggestions.describe_expected(TrainConfig.DESCRIPTOR.fields_by_name[name]) == expected
