"""The Object Detection API's half of `benchmarks.families` and `benchmarks.tflite`.

    PYTHONPATH=. TF_USE_LEGACY_KERAS=1 python benchmarks/od_api_peer.py SETTINGS

`SETTINGS` is JSON, as `families.settings` makes it, with `code`, the folder that holds the package
`object_detection`, as tensorflow/models has it in `research`. Packages that it imports but these networks do
not use are replaced by empty ones, unless they are there. Nothing of detflow is imported.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.turns import serve

NOT_USED = (
    "tf_slim",
    "slim",
    "nets",
    "deployment",
    "lvis",
    "pycocotools",
    "official",
    "matplotlib",
    "tensorflow_io",
)


class _Empty(types.ModuleType):
    """A package of which every name exists and nothing works."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock(name=name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages that are not in the folder and that no network uses."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        top = name.partition(".")[0]
        if top not in NOT_USED or (self.folder / top).is_dir():
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def find_reference(work: dict[str, Any]) -> None:
    """Make the reference's code importable."""
    sys.path.insert(0, work["code"])
    sys.meta_path.insert(0, _Finder(work["code"]))


def pipeline(work: dict[str, Any]) -> Any:
    """Parse the config."""
    text_format = importlib.import_module("google.protobuf.text_format")
    pipeline_pb2 = importlib.import_module("object_detection.protos.pipeline_pb2")
    return text_format.Parse(work["config"], pipeline_pb2.TrainEvalPipelineConfig())


def detector(work: dict[str, Any]) -> Any:
    """Build the detector of a config, with random weights."""
    builder = importlib.import_module("object_detection.builders.model_builder")
    is_training = work["part"] == "step"
    return builder.build(pipeline(work).model, is_training=is_training, add_summaries=False)


def _batch(work: dict[str, Any]) -> tuple[Any, Any, dict[str, list[Any]]]:
    """Read images [B, H, W, 3], 0..255, their sizes, and boxes and one-hot classes of each image."""
    numpy, tf = importlib.import_module("numpy"), importlib.import_module("tensorflow")
    with numpy.load(work["batch"]) as stored:
        pixels, boxes, classes = (stored[name] for name in ("pixels", "boxes", "classes"))
    sizes = tf.constant([[*pixels.shape[1:]]] * len(pixels), tf.int32)
    truth = {
        "groundtruth_boxes_list": [tf.constant(each, tf.float32) for each in boxes],
        "groundtruth_classes_list": [tf.one_hot(each, work["classes"]) for each in classes],
        "groundtruth_weights_list": [tf.ones(len(each)) for each in classes],
    }
    return tf.constant(pixels, tf.float32), sizes, truth


def training_step(work: dict[str, Any]) -> Callable[[], object]:
    """Return a step: forward, losses, gradients, update, compiled."""
    tf, keras = importlib.import_module("tensorflow"), importlib.import_module("tf_keras")
    # As its training loop does; without it, batch norms use their averages.
    keras.backend.set_learning_phase(True)
    model, (pixels, sizes, truth) = detector(work), _batch(work)
    optimizer = keras.optimizers.legacy.SGD(1e-3, momentum=0.9)

    @tf.function
    def update(pixels: Any) -> Any:
        with tf.GradientTape() as tape:
            images, _ = model.preprocess(pixels)
            model.provide_groundtruth(**truth)
            found = model.predict(images, sizes)
            losses = list(model.loss(found, sizes).values())
            total = tf.add_n([*losses, *model.regularization_losses()])
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(total, variables), variables, strict=True))
        return total

    return lambda: float(update(pixels))


def prediction(work: dict[str, Any]) -> Callable[[], object]:
    """Return a prediction: network, and suppression or peaks, compiled.

    Several images have no number in the graph. For each of a fixed number, the reference would write the
    suppression of all classes into its graph, which takes a minute an image.
    """
    tf = importlib.import_module("tensorflow")
    model, (pixels, sizes, _) = detector(work), _batch(work)
    batch = None if len(pixels) > 1 else 1

    @tf.function(
        input_signature=[tf.TensorSpec([batch, *each.shape[1:]], each.dtype) for each in (pixels, sizes)]
    )
    def detect(pixels: Any, sizes: Any) -> Any:
        images, _ = model.preprocess(pixels)
        return model.postprocess(model.predict(images, sizes), sizes)

    def run() -> object:
        return detect(pixels, sizes)["num_detections"].numpy()

    return run


def write_tflite(work: dict[str, Any]) -> None:
    """Write .tflite files as the reference's exporter and TensorFlow's converter do, float32 and int8."""
    numpy, tf = importlib.import_module("numpy"), importlib.import_module("tensorflow")
    exporter = importlib.import_module("object_detection.export_tflite_graph_lib_tf2")
    config = pipeline(work)
    module = exporter.SSDModule(config, detector(work), work["detections"], False)
    shape = tf.TensorSpec(module.input_shape(), tf.float32, name="input")
    function = module.inference_fn.get_concrete_function(shape)
    saved = f"{work['folder']}/saved_model"
    tf.saved_model.save(module, saved, signatures=function)
    inputs = numpy.random.default_rng(0).uniform(-1, 1, (4, *module.input_shape())).astype("float32")
    for form in ("float32", "int8"):
        converter = tf.lite.TFLiteConverter.from_saved_model(saved)
        if form == "int8":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: ([each] for each in inputs)
        path = Path(work["folder"]) / f"Object Detection API_{form}.tflite"
        path.write_bytes(converter.convert())


PARTS = {"step": training_step, "prediction": prediction}


def main() -> None:
    """Run the part that the settings name, whenever it is asked for; or write files."""
    work = json.loads(sys.argv[1])

    def make() -> Callable[[], object]:
        tf = importlib.import_module("tensorflow")
        tf.config.threading.set_intra_op_parallelism_threads(work["threads"])
        find_reference(work)
        return PARTS[work["part"]](work)

    if work["part"] == "tflite":
        find_reference(work)
        write_tflite(work)
        return

    serve(make, needs="tensorflow, and give the folder of object_detection with --od-api")


if __name__ == "__main__":
    main()
