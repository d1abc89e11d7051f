import json

from detection_core.artifacts.parity import PARITY, FileReport, ParityReport


def test_latency_is_by_threads_or_plain_and_a_file_that_does_not_say_that_it_passed_did_not():
    threads = {"2": 3.0, "1": 5.0}, [(1, 5.0), (2, 3.0)]
    for latency, rows in (threads, (4.0, [(1, 4.0)]), ({}, []), (None, [])):
        text = json.dumps({"files": [{"file": "m.tflite", "metrics": {}, "latency_ms": latency}]})
        (file,) = PARITY.parse(text, "parity.json").files
        assert file.latencies == rows, latency
    report = PARITY.parse('{"files": [{"file": "m.tflite", "metrics": {}}]}', "parity.json")
    assert not report.blessed and not report.files[0].passed
    file = FileReport(file="m", format="int8", metrics={"a": 0.5}, latency_ms={"1": 2.0}, passed=True)
    report = ParityReport(split="test", images=3, files=[file], blessed=True, reasons=["r"])
    assert PARITY.parse(PARITY.format(report), "parity.json") == report
