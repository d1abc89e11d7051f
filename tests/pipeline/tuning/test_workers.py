import pytest

from pipeline.tuning.workers import visible_gpus, worker_environment


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))


def test_one_training_has_the_whole_machine_and_several_divide_the_processors(monkeypatch):
    assert worker_environment(0, 1) == {}
    found = worker_environment(1, 3)
    assert found == {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2", "OMP_NUM_THREADS": "2"}
    assert worker_environment(0, 20)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert "OMP_NUM_THREADS" not in worker_environment(0, 2), "what the environment says stays"


def test_gpus_are_dealt_out(monkeypatch):
    for devices, workers, dealt in (
        ("0,1", 2, ["0", "1"]),
        ("0,1", 4, ["0", "1", "0", "1"]),
        ("3,5,7", 2, ["3,7", "5"]),
        ("GPU-a", 2, ["GPU-a"] * 2),
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)
        found = [worker_environment(slot, workers) for slot in range(workers)]
        assert [each["CUDA_VISIBLE_DEVICES"] for each in found] == dealt
        assert {each["TF_FORCE_GPU_ALLOW_GROWTH"] for each in found} == {"true"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert visible_gpus() == []
