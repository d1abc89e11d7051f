"""Convert a portable SavedModel and run it, in a separate environment without detflow.

    python run.py RUNTIME FOLDER

FOLDER has `saved_model/`, `frozen_inference_graph.pb` and `images.npy`, what `images` takes; outputs are
written to FOLDER/RUNTIME.npz, by their names.
"""

import os
import sys

import numpy as np


def onnx(folder, images):
    import tensorflow as tf
    import tf2onnx

    with open(f"{folder}/frozen_inference_graph.pb", "rb") as file:
        graph = tf.compat.v1.GraphDef.FromString(file.read())
    names = [node.name for node in graph.node]
    outputs = [f"{name}:0" for name in os.environ["OUTPUTS"].split(",") if name in names]
    path = f"{folder}/model.onnx"
    given = {"input_names": ["images:0"], "output_names": outputs}
    tf2onnx.convert.from_graph_def(graph, **given, opset=18, output_path=path)
    return onnxruntime(path, images)


def onnxruntime(path, images):
    import onnxruntime as ort

    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"images:0": images}), strict=True))


def openvino(folder, images):
    import openvino as ov

    model = ov.convert_model(f"{folder}/saved_model")
    # On processors with bfloat16 products it computes in bfloat16 unless it is asked not to.
    found = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([images])
    return {min(output.get_names()): value for output, value in found.items()}


def opencv_onnx(folder, images):
    """Run what tf2onnx wrote."""
    import cv2

    return opencv_outputs(cv2.dnn.readNetFromONNX(f"{folder}/model.onnx"), images)


def opencv(folder, images):
    """Run the frozen graph; its importer wants channels first."""
    import cv2

    network = cv2.dnn.readNetFromTensorflow(f"{folder}/frozen_inference_graph.pb")
    return opencv_outputs(network, np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def opencv_outputs(network, images):
    network.setInput(images)
    names = network.getUnconnectedOutLayersNames()
    return dict(zip(names, network.forward(names), strict=True))


def coreml(folder, images):
    """Convert alone: it runs on Apple's systems."""
    import coremltools as ct

    model = ct.convert(f"{folder}/saved_model", source="tensorflow", convert_to="mlprogram")
    model.save(f"{folder}/model.mlpackage")
    shapes = [list(o.type.multiArrayType.shape) for o in model.get_spec().description.output]
    return {f"output_{number}": np.array(shape) for number, shape in enumerate(shapes)}


RUNTIMES = {f.__name__: f for f in (onnx, openvino, opencv, opencv_onnx, coreml)}


def main() -> None:
    runtime, folder = sys.argv[1:]
    found = RUNTIMES[runtime](folder, np.load(f"{folder}/images.npy"))
    outputs = {name.removesuffix(":0"): np.asarray(value) for name, value in found.items()}
    np.savez(f"{folder}/{runtime}.npz", **outputs)


if __name__ == "__main__":
    main()
