from component_specs import TFLiteExporterJob
from component_specs.annotations import job_fields
from tests.component_specs.contract import carried


def test_formats_travel_as_names_and_commas():
    assert carried(TFLiteExporterJob)["formats"] == "float32,int8"
    assert carried(TFLiteExporterJob, formats=("int8",))["formats"] == "int8"
    formats = job_fields(TFLiteExporterJob).parameters["formats"]
    assert formats.decode("float32, int8") == TFLiteExporterJob(**_PATHS).formats


_PATHS = dict.fromkeys(("examples", "model", "tflite", "parity", "blessing"), "/x")
