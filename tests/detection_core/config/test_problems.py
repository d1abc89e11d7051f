from detection_core.config.load import load_pipeline_config
from detection_core.config.problems import Problem, child_path, missing_arm, walk_messages
from detection_core.protos.matcher_pb2 import Matcher
from tests.support.configs import CENTER, TWO_STAGE


def test_every_message_of_a_config_is_walked_but_no_map():
    configs = map(load_pipeline_config, (TWO_STAGE, CENTER))
    paths, others = ([path for path, _ in walk_messages(config)] for config in configs)
    assert {"", "model.faster_rcnn.feature_extractor", "eval_input_reader[1]"} <= set(paths)
    assert len(paths) == len(set(paths))
    pose = "model.center_net.keypoint_estimation_task[0]"
    assert [path for path in others if path.startswith(pose)] == [pose]


def test_a_missing_choice_names_the_arms_and_its_path():
    (problem,) = missing_arm(Matcher(), "matcher_oneof", "model.ssd.matcher")
    message = "expected one of argmax_matcher, bipartite_matcher, found none; add the one you want"
    assert problem == Problem(path="model.ssd.matcher", message=message)
    chosen = Matcher()
    chosen.argmax_matcher.SetInParent()
    assert not list(missing_arm(chosen, "matcher_oneof", "model.ssd.matcher"))
    field = Matcher.DESCRIPTOR.fields_by_name["argmax_matcher"]
    assert child_path("", field) == "argmax_matcher"
    assert child_path("a.b", field, 2) == "a.b.argmax_matcher[2]"
