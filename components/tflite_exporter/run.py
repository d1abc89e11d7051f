"""TFLiteExporter: convert detectors to TensorFlow Lite and compare them with the SavedModel."""

from typing import Any

from component_specs.annotations import options_of
from component_specs.tflite_exporter import TFLiteExporterJob
from detection_core.artifacts.blessing import write_blessing
from detection_core.ops.tile_options import tile_options
from detection_core.tasks.export import export_tflite
from detection_core.tasks.exporting.parity import TFLiteExportOptions


def run(job: TFLiteExporterJob) -> dict[str, Any]:
    """Convert the job's detectors and judge the files.

    Returns:
        Properties of the TensorFlow Lite artifact.
    """
    report = export_tflite(
        job.model,
        job.examples,
        options_of(TFLiteExportOptions, job, tiles=tile_options(job.tiles)),
        tflite_dir=job.tflite,
        parity_dir=job.parity,
        quantized_model_dir=job.quantized_model,
    )
    write_blessing(job.blessing, report.blessed, report.reasons)
    return {"blessed": report.blessed, **{f"{f.name}_bytes": f.size_bytes for f in report.files}}
