import time

from components.example_gen import transforms
from components.example_gen.transforms import IN_PROCESS, choose_arguments
from detection_core.storage import files
from detection_core.storage.schemes import store_of
from tests.support.object_store import s3_server


def test_processes_are_started_only_where_that_pays():
    assert choose_arguments(1000, 16) == IN_PROCESS
    assert choose_arguments(10_000_000, 1) == IN_PROCESS
    assert choose_arguments(50_000, 2) == IN_PROCESS
    assert "--direct_num_workers=16" in choose_arguments(50_000, 16)
    assert "--direct_running_mode=multi_processing" in choose_arguments(118_000, 2)
    for images in (1, 10_000_000):
        assert "--runner=FnApiRunner" in choose_arguments(images, 8)


def test_waiting_for_many_shards_takes_few_requests(monkeypatch):
    monkeypatch.setattr(transforms, "_POLL_SECONDS", 0.02)
    advanced, requests = [], []
    monkeypatch.setattr(transforms.Progress, "advance", lambda self, amount: advanced.append(amount))
    with s3_server() as bucket:
        tasks = {f"{bucket}/examples/.work/train-{i:05d}.task.json": 10 for i in range(500)}
        events = store_of(bucket).file_system.s3.meta.events
        count = lambda model, **_: requests.append(model.name)  # noqa: E731
        events.register_first("before-call.s3", count)
        try:
            with transforms._watched(tasks):
                for number in range(3):
                    files.write_text(f"{bucket}/examples/.work/train-{number:05d}.report.json", "{}")
                until = time.monotonic() + 60
                while sum(advanced) < 30 and time.monotonic() < until:
                    time.sleep(0.01)
        finally:
            events.unregister("before-call.s3", count)
    assert sum(advanced) == 30
    assert "HeadObject" not in requests and requests.count("PutObject") == 3
