import dataclasses
from unittest import mock

import pytest

from detection_core.tasks import input_benchmark as task
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text, write_examples

RATES = {task.READ: 4000, task.PARSE: 4000, task.DECODE: 500, task.AUGMENT: 2000, task.BATCH: 4000}
MEASURED = task.InputBenchmark(
    stages={n: task.Throughput(images_per_second=r, cpu_ms=1000 / r) for n, r in RATES.items()},
    whole=task.Throughput(images_per_second=200.0, cpu_ms=5.0),
    bare=task.Throughput(images_per_second=400.0, cpu_ms=2.0),
    step=task.Throughput(images_per_second=100.0, cpu_ms=20.0),
    cores=2,
    gpus=0,
    batch_size=3,
    decoded_bytes=5_000_000,
    in_memory=True,
)


@pytest.fixture
def words(tmp_path):
    (tmp_path / "pipeline.config").write_text(config_text(backbone=PLAIN))
    return ["bench", "input", tmp_path / "pipeline.config", "--images", "4", "--seconds", "0.05"]


def test_each_stage_and_what_bounds_the_run_are_told(words, cli, monkeypatch):
    measure = mock.Mock(return_value=MEASURED)
    monkeypatch.setattr(task, "bench_input", measure)
    lines = cli(*words).splitlines()
    assert measure.call_args.args[1] == task.InputBenchOptions(images=4, seconds=0.05, step=True)
    assert [line.split()[-2:] for line in lines[2:4]] == [["4000.0", "0.25"], ["500.0", "2.00"]]
    assert lines[6].split() == ["whole", "input", "200.0", "5.00"]
    assert lines[8].split() == ["training", "step", "of", "3", "100.0", "20.00"]
    assert lines[10] == "2 cores; the whole input gives 0.50 of bare decoding's images a second"
    # Of 5 ms an image 2.5 are left without reading and decoding.
    assert lines[11].endswith(" and are kept in memory: about 400.0 images/s after the first epoch")
    shared = "bound by the step: training gets about 80.0 images/s, as the two share the cores"
    assert lines[12] == shared
    measure.return_value = dataclasses.replace(MEASURED, in_memory=False, gpus=1)
    assert cli(*words).splitlines()[11].endswith(", too much to keep them in memory: each epoch decodes")
    assert cli(*words).endswith("about 100.0 images/s, as the two work at the same time\n")
    measure.return_value = dataclasses.replace(MEASURED, step=None)
    assert cli.json(*words)["later_epochs"] == {"images_per_second": 400.0, "cpu_ms": 2.5}


def test_examples_are_measured_for_a_script_and_wrong_arguments_are_one_message(words, tmp_path, cli):
    examples = ["--examples", write_examples(tmp_path / "examples")]
    found = cli.json(*words, *examples, "--no-step", "--set", "train_config.batch_size=3")
    assert found["batch_size"] == 3 and found["step"] is None and found["bound"] is None
    whole, bare = (found[name]["images_per_second"] for name in ("whole", "bare"))
    assert found["of_bare"] == pytest.approx(whole / bare)
    for rest, message in (
        ([], "expected one pipeline.config"),
        (["a.config", "b.config"], "found 2"),
        (["gone.config"], "gone.config"),
    ):
        assert message in cli.refused("bench", "input", *rest)
