"""TFLiteExporter: convert detectors to TensorFlow Lite and compare them with the SavedModel."""

from typing import Any

from component_specs.tflite_exporter import TFLiteExporterJob
from detection_core.artifacts.blessing import write_blessing
from detection_core.tasks.export import export_tflite
from detection_core.tasks.exporting.parity import TFLiteExportOptions


def run(job: TFLiteExporterJob) -> dict[str, Any]:
    """Convert the job's detectors and judge the files.

    Returns:
        Properties of the TensorFlow Lite artifact.
    """
    options = TFLiteExportOptions(
        formats=job.formats,
        split=job.split,
        max_map_drop=job.max_map_drop,
        limits=job.limits,
        max_detections=job.max_detections,
        use_regular_nms=job.use_regular_nms,
        form=job.form,
        representative_examples=job.representative_examples,
    )
    report = export_tflite(
        job.model,
        job.examples,
        options,
        tflite_dir=job.tflite,
        parity_dir=job.parity,
        quantized_model_dir=job.quantized_model,
    )
    write_blessing(job.blessing, report.blessed, report.reasons)
    return {"blessed": report.blessed, **{f"{f.format}_bytes": f.size_bytes for f in report.files}}
