from detection_core.artifacts.tflite_graph import OperatorInfo, TensorInfo, TFLiteGraph
from detection_core.artifacts.tflite_network import network_operators, network_outputs
from tests.support.cases import cases

# Operation, inputs, output; tensors beside those that an operation gives, and the picture, are constants.
SSD = (
    ("QUANTIZE", "picture", "pixels"),
    ("CONV_2D", "pixels kernel", "stem"),
    ("LOGISTIC", "stem", "gate"),
    ("MUL", "stem gate", "swish"),
    ("CONV_2D", "swish kernel", "box_map"),
    ("CONV_2D", "swish kernel", "class_map"),
    ("RESHAPE", "box_map shape", "box_rows"),
    ("RESHAPE", "class_map shape", "class_rows"),
    ("CONCATENATION", "box_rows", "codes"),
    ("DEQUANTIZE", "codes", "float_codes"),
    ("LOGISTIC", "class_rows", "scores"),
    ("TFLite_Detection_PostProcess", "float_codes scores anchors", "detections"),
    ("RESHAPE", "detections shape", "rows"),
)


def graph_of(rows, outputs: str) -> TFLiteGraph:
    names = ["picture"] + [output for _, _, output in rows]
    names += sorted({n for _, inputs, _ in rows for n in inputs.split()} - set(names))
    made = {"picture", *(output for _, _, output in rows)}
    index = {name: place for place, name in enumerate(names)}
    return TFLiteGraph(
        schema_version=3,
        tensors=tuple(
            TensorInfo(name=n, shape=(1,), dtype="float32", quantization=None, is_constant=n not in made)
            for n in names
        ),
        operators=tuple(
            OperatorInfo(
                name=kind,
                is_custom=False,
                inputs=tuple(index[n] for n in inputs.split()),
                outputs=(index[output],),
            )
            for kind, inputs, output in rows
        ),
        inputs=(0,),
        outputs=tuple(index[n] for n in outputs.split()),
        signature_names={},
    )


@cases(
    (SSD, "rows", ["class_rows", "codes"]),
    # Headless: what the graph gives are the heads.
    (SSD[:9], "codes class_rows", ["class_rows", "codes"]),
    # Without box codes joined: each level is a head.
    (SSD[:6], "box_map class_map", ["box_map", "class_map"]),
)
def test_heads_are_what_the_last_convolutions_give_moved_and_joined(*, rows, outputs, heads):
    graph = graph_of(rows, outputs)
    assert [graph.tensors[i].name for i in network_outputs(graph)] == heads


def test_an_activation_belongs_to_the_network_where_a_convolution_follows():
    graph = graph_of(SSD, "rows")
    inside = [graph.operators[position].name for position in network_operators(graph)]
    assert inside == [kind for kind, _, _ in SSD[:9]]
    graph = graph_of((("ADD", "picture one", "sum"),), "sum")
    assert network_operators(graph) == [] and network_outputs(graph) == []
