from detection_core.artifacts.tflite_graph import read_graph
from detection_core.exporters.delegation import xnnpack_delegation
from tests.support.edge_files import convolutions


def test_only_an_operation_that_xnnpack_does_not_have_cuts_a_graph_in_two():
    content = convolutions()
    found = xnnpack_delegation(content)
    assert found.left == () and len(found.partitions) == 1
    assert len(found.partitions[0]) == len(read_graph(content).operators)
    content = convolutions(between="reverse")
    names = [op.name for op in read_graph(content).operators]
    found = xnnpack_delegation(content)
    assert [names[index] for index in found.left] == ["REVERSE_V2"]
    assert [[names[index] for index in part] for part in found.partitions] == [["CONV_2D"], ["CONV_2D"]]
