"""Put TensorRT's EfficientNMS behind an ONNX file of raw heads.

    python add_nms.py heads.onnx decoding.json detector.onnx [--min-score 0.01]

The plugin decodes boxes itself ("fused box decoder"): it takes codes without scales, scores, and anchors. See
https://github.com/NVIDIA/TensorRT/tree/main/plugin/efficientNMSPlugin. Needs the package `onnx`.
"""

import argparse
import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CENTRE_AND_SIZE = 1  # box_coding


def main() -> None:
    """Read the two files, and write the ONNX file with the plugin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("heads", help="ONNX file with the outputs location and score")
    parser.add_argument("decoding", help="decoding.json of a `detflow export` of the same detector")
    parser.add_argument("output", help="ONNX file to write")
    parser.add_argument("--min-score", type=float, default=0.01, help="least score of a detection")
    arguments = parser.parse_args()
    with open(arguments.decoding, encoding="utf-8") as file:
        decoding = json.load(file)
    model = onnx.load(arguments.heads)
    add_nms(model.graph, decoding, arguments.min_score)
    model.opset_import.append(helper.make_opsetid("TRT", 1))
    onnx.save(model, arguments.output)


def add_nms(graph: onnx.GraphProto, decoding: dict, min_score: float) -> None:
    """Replace the outputs of a graph by those of the plugin."""
    options = decoding["post_process"]
    location, score = (
        next(one for one in graph.output if name in one.name) for name in ("location", "score")
    )
    scales = np.array([[[1 / options[f"{side}_scale"] for side in "yxhw"]]], np.float32)
    anchors = np.array([decoding["anchors"]], np.float32)
    graph.initializer.extend(
        [numpy_helper.from_array(scales, "scales"), numpy_helper.from_array(anchors, "anchors")]
    )
    graph.node.append(helper.make_node("Mul", [location.name, "scales"], ["codes"]))
    rows = options["max_detections"]
    outputs = {
        "num_detections": (TensorProto.INT32, [1, 1]),
        "detection_boxes": (TensorProto.FLOAT, [1, rows, 4]),
        "detection_scores": (TensorProto.FLOAT, [1, rows]),
        "detection_classes": (TensorProto.INT32, [1, rows]),
    }
    nms = helper.make_node(
        "EfficientNMS_TRT",
        ["codes", score.name, "anchors"],
        list(outputs),
        domain="TRT",
        plugin_version="1",
        background_class=-1,
        score_activation=int(decoding["sigmoid"]),
        box_coding=CENTRE_AND_SIZE,
        class_agnostic=0,
        score_threshold=max(min_score, options["nms_score_threshold"]),
        iou_threshold=options["nms_iou_threshold"],
        max_output_boxes=rows,
    )
    graph.node.append(nms)
    del graph.output[:]
    graph.output.extend(helper.make_tensor_value_info(name, *kind) for name, kind in outputs.items())


if __name__ == "__main__":
    main()
