from unittest import mock

from component_specs import TFLiteExporterJob
from detection_core.artifacts.parity import PARITY
from pipeline.cli import standalone


def test_defaults_are_the_component_s_and_flags_reach_it(monkeypatch, cli):
    run = mock.Mock(return_value={"blessed": True, "files": [], "reasons": []})
    monkeypatch.setattr(standalone, "_run_step", run)
    words = ["export", "--model", "m", "--examples", "e", "--output", "o"]
    more = ["--use-regular-nms", "--max-detections", "20", "--representative-examples", "7"]
    cli(*words)
    cli(*words, *more, "--formats", "int8")
    assert run.call_args.args[:3] == ("tflite_exporter", PARITY, "parity")
    defaults, given = (call.kwargs for call in run.call_args_list)
    for name in ("use_regular_nms", "max_detections", "representative_examples", "form", "max_map_drop"):
        assert defaults[name] == getattr(TFLiteExporterJob, name)
    assert given["use_regular_nms"] is True and given["max_detections"] == 20
    assert given["representative_examples"] == 7 and list(given["formats"]) == ["int8"]
