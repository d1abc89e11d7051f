from detection_core.config.messages.feature_nodes import Node, named_nodes, node_problems
from tests.support.efficientdet_goldens import read_json


def test_nodes_equal_the_reference_and_a_node_may_take_one_made_before_it():
    for name, case in read_json("hparams")["fpn"].items():
        kind, *levels = name.split("_")
        if levels:
            expected = [Node(node["feat_level"], tuple(node["inputs_offsets"])) for node in case["nodes"]]
            assert list(named_nodes(kind, *map(int, levels))) == expected, name
    assert named_nodes("bifpn", 3, 4) == (Node(3, (0, 1)), Node(4, (1, 2)))
    assert not list(node_problems([Node(3, (0,)), Node(4, (5, 1))], 3, 7, "nodes"))


def test_a_node_that_cannot_be_made_is_found():
    wrong = {Node(8, (0,)): "feat_level", Node(3, (0, 5)): "inputs_offsets", Node(3, ()): "inputs"}
    for node, field in wrong.items():
        [problem] = node_problems([node], 3, 7, "nodes")
        assert problem.path.startswith(f"nodes[0].{field}")
