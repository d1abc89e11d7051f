import numpy as np
from ai_edge_litert import schema_py_generated as schema

from detection_core.artifacts.tflite_graph import read_graph
from detection_core.exporters import operator_times as module
from detection_core.exporters.delegation import make_interpreter
from detection_core.exporters.latency import fill_inputs
from detection_core.exporters.operator_times import operator_times
from tests.support.cases import cases
from tests.support.edge_files import convolutions


@cases(False, True)
def test_a_cut_out_operation_gives_what_it_gives_in_the_whole(*, integer):
    content = convolutions(between="reverse", integer=integer)
    whole = make_interpreter(content, threads=1, delegate="none", keep_tensors=True)
    fill_inputs(whole)
    whole.invoke()
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for operator in model.subgraphs[0].operators:
        single, inputs = module._single(schema, model, operator)
        assert len(read_graph(single).operators) == 1
        alone = make_interpreter(single, threads=1, delegate="none")
        for details, index in zip(alone.get_input_details(), inputs, strict=True):
            alone.set_tensor(details["index"], whole.get_tensor(index))
        alone.invoke()
        (output,) = alone.get_output_details()
        expected = whole.get_tensor(int(operator.outputs[0]))
        np.testing.assert_array_equal(alone.get_tensor(output["index"]), expected)


def test_every_operation_has_a_time_and_the_larger_one_the_larger():
    content = convolutions(between="reverse", side=96)
    times = operator_times(content, threads=1, delegate="none", runs=9)
    names = [op.name for op in read_graph(content).operators]
    assert [time.index for time in times] == list(range(len(names)))
    by_name = dict(zip(names, (time.milliseconds for time in times), strict=True))
    assert by_name["CONV_2D"] > by_name["REVERSE_V2"] > 0
