"""Contract of TFLiteExporter."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated

from component_specs.annotations import BLESSING, EVALUATION, EXAMPLES, MODEL, TFLITE_MODEL, Input, Output
from component_specs.codecs import CommaSeparated, JsonObject
from component_specs.example_gen import TILES, Tiles

LIMITS = JsonObject(example='{"int8": {"size_mb": 4, "latency_ms": 20}}', of_objects=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteExporterJob:
    """Convert a detector to TensorFlow Lite, and refuse files that lost accuracy.

    Attributes:
        examples: output of ExampleGen.
        model: float detector; the reference of the parity gate.
        quantized_model: quantization-aware detector for `int8`, `int8_int8_input` and `int8_float32_input`.
            Without it they use post-training quantization of `model`, as `int8_post_training` and
            `int8_mixed` always do. Formats that end with `_aware` need one.
        formats: of `float32`, `float16`, `dynamic_range`, `int8`, `int8_post_training`, `int8_mixed`,
            `int8_int8_input`, `int8_float32_input`, `int16x8`, `int8_weights`, `int4_weights`,
            `int8_mixed_aware`, `float16_aware`, `dynamic_range_aware`, `int16x8_aware`, `int8_weights_aware`
            and `int4_weights_aware`.
        split: split to measure parity on.
        tiles: tiles to measure parity in beside whole images, as in Evaluator.
        max_map_drop: largest absolute drop of mAP@.50 from the SavedModel to a file.
        limits: format to its limits: {"size_mb", "latency_ms", "memory_mb"}, in millions of
            bytes and milliseconds; a file over a limit is refused.
        max_detections: maximum detections of the post-processing op.
        use_regular_nms: whether files apply NMS per class, as the SavedModel does.
        form: `post_process`: the files end with TFLite_Detection_PostProcess. `plain_nms`: built-in
            operations in its place. `headless`: box codes and scores of every anchor.
        headless: also write each file without post-processing, for GPU and NPU.
        representative_examples: training examples that calibrate post-training quantization.
        code_version: fingerprint of the code; part of the cache key.
        tflite: folder to fill: model_FORMAT.tflite and model_FORMAT_headless.tflite for each format,
            decoding.json, labels.txt.
        parity: folder to fill with parity.json.
        blessing: folder to fill with `BLESSED` or `NOT_BLESSED`, and reasons.json.
    """

    examples: Annotated[str, Input(EXAMPLES)]
    model: Annotated[str, Input(MODEL)]
    tflite: Annotated[str, Output(TFLITE_MODEL)]
    parity: Annotated[str, Output(EVALUATION)]
    blessing: Annotated[str, Output(BLESSING)]
    quantized_model: Annotated[str, Input(MODEL, optional=True)] = ""
    formats: Annotated[tuple[str, ...], CommaSeparated()] = ("float32", "int8")
    split: str = "eval"
    tiles: Annotated[Tiles, TILES] = dataclasses.field(default_factory=dict)
    max_map_drop: float = 0.02
    limits: Annotated[Mapping[str, Mapping[str, float]], LIMITS] = dataclasses.field(default_factory=dict)
    max_detections: int = 100
    use_regular_nms: bool = False
    form: str = "post_process"
    headless: bool = True
    representative_examples: int = 100
    code_version: str = ""
