from detection_core.artifacts.tflite_graph import read_graph
from detection_core.exporters.delegation import xnnpack_delegation
from tests.support.edge_files import convolutions


def test_only_an_operation_that_xnnpack_does_not_have_cuts_a_graph_in_two():
    for between, left, parts in (("", [], [["CONV_2D"] * 2]), ("reverse", ["REVERSE_V2"], [["CONV_2D"]] * 2)):
        content = convolutions(between=between)
        names = [op.name for op in read_graph(content).operators]
        found = xnnpack_delegation(content)
        assert [names[index] for index in found.left] == left
        assert [[names[index] for index in part] for part in found.partitions] == parts
