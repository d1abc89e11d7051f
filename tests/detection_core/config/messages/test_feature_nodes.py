"""Nodes of pyramids, as they are published."""

from detection_core.config.messages.feature_nodes import Node, named_nodes, node_problems
from tests.support.cases import cases
from tests.support.efficientdet_goldens import read_json

PUBLISHED = {name: case for name, case in read_json("hparams")["fpn"].items() if "_" in name}


@cases(*PUBLISHED)
def test_nodes_equal_the_reference(*, name):
    kind, low, high = name.split("_")
    expected = [Node(node["feat_level"], tuple(node["inputs_offsets"])) for node in PUBLISHED[name]["nodes"]]
    assert list(named_nodes(kind, int(low), int(high))) == expected


def test_two_levels_are_enough_and_a_node_may_take_one_made_before_it():
    assert not list(node_problems([Node(3, (0,)), Node(4, (5, 1))], 3, 7, "nodes"))
    assert named_nodes("bifpn", 3, 4) == (Node(3, (0, 1)), Node(4, (1, 2)))


@cases((Node(8, (0,)), "feat_level"), (Node(3, (0, 5)), "inputs_offsets"), (Node(3, ()), "inputs"))
def test_a_node_that_cannot_be_made_is_found(*, node, field):
    [problem] = node_problems([node], 3, 7, "nodes")
    assert problem.path.startswith(f"nodes[0].{field}")
