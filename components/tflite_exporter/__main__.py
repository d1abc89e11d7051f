"""The container's entry point."""

from component_specs import TFLiteExporterJob
from components.runtime.container import main
from components.tflite_exporter.run import run

if __name__ == "__main__":
    main(TFLiteExporterJob, run)
