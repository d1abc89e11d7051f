"""Model Maker's names: replace `from tflite_model_maker import` by `from detflow import`.

    from detflow import model_spec, object_detector

    train, validation, test = object_detector.DataLoader.from_csv("boxes.csv", images_dir="images")
    spec = model_spec.get("efficientdet_lite0")
    model = object_detector.create(train, spec, validation_data=validation, epochs=50, batch_size=8)
    print(model.evaluate(test)["AP50"])
    model.export(export_dir="exported")
    print(model.evaluate_tflite("exported/model.tflite", test)["AP50"])

The modules are `object_detector`, `model_spec`, `config` and `quantization`, which has MediaPipe Model
Maker's `QuantizationConfig`. They wrap `detection_core`. Each module is imported on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detflow import config, model_spec, object_detector, quantization

# In a checkout it is also importable as `pipeline.api.detflow`, where every class would exist twice.
if __name__ != "detflow":
    raise ImportError(f"expected `import detflow`, found `import {__name__}`; import it as detflow")

__all__ = ["config", "model_spec", "object_detector", "quantization"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
