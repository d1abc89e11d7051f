from pipeline.init.hardware import GIB, Hardware, look_at_hardware


def test_this_machine_has_processors_and_memory_and_says_so():
    found = look_at_hardware()
    assert found.processors >= 1 and found.memory > GIB // 4
    assert f"{found.memory / GIB:.0f} GiB" in found.text

    for memory, gpu, text in (
        (0, "", "2 processors without a GPU"),
        (8 * GIB, "", "2 processors without a GPU, 8 GiB"),
        (80 * GIB, "H100", "H100, 80 GiB"),
    ):
        assert Hardware(processors=2, memory=memory, gpu=gpu).text == text
