"""A pipeline with another training and two of our steps, Evaluator and TFLiteExporter.

It does not need an installed detflow, only the two YAML files.

    python examples/components_in_your_own_kfp_pipeline/pipeline.py foreign.yaml

Examples are the output of ExampleGen. Evaluator takes any SavedModel with the Object Detection API's outputs.
TFLiteExporter takes a detector folder, as `write_detector` of `detection_core.exporters.detector_folder`
makes it.
"""

import sys
from pathlib import Path

from kfp import compiler, components, dsl

SPECS = Path(__file__).parents[2] / "component_specs" / "yaml"

evaluator = components.load_component_from_file(str(SPECS / "evaluator.yaml"))
tflite_exporter = components.load_component_from_file(str(SPECS / "tflite_exporter.yaml"))


@dsl.container_component
def train(examples: dsl.Input[dsl.Dataset], model: dsl.Output[dsl.Model], epochs: int = 10):
    """Train with a program of one's own."""
    return dsl.ContainerSpec(
        image="their-trainer:1.4",
        command=["python", "train.py"],
        args=["--records", examples.path, "--epochs", epochs, "--output", model.path],
    )


@dsl.pipeline(name="foreign-training")
def foreign_training(
    examples_uri: str,
    epochs: int = 10,
    thresholds: str = '{"DetectionBoxes_Precision/mAP": {"lower_bound": 0.3}}',
):
    """Train, measure, and convert what is good enough.

    Args:
        examples_uri: object-store folder of the examples.
        epochs: how long to train.
        thresholds: what a model has to reach.
    """
    examples = dsl.importer(artifact_uri=examples_uri, artifact_class=dsl.Dataset)
    trained = train(examples=examples.output, epochs=epochs)
    measured = evaluator(
        examples=examples.output, model=trained.outputs["model"], split="eval", thresholds=thresholds
    )
    with dsl.If(measured.outputs["blessed"] == True):  # noqa: E712  (a comparison that KFP records)
        tflite_exporter(examples=examples.output, model=trained.outputs["model"], formats="float32")


if __name__ == "__main__":
    compiler.Compiler().compile(foreign_training, sys.argv[1])
