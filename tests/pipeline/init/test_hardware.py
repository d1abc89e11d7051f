from pipeline.init.hardware import GIB, Hardware, look_at_hardware


def test_this_machine_has_processors_and_memory():
    found = look_at_hardware()
    assert found.processors >= 1
    assert found.memory > GIB // 4
    assert f"{found.memory / GIB:.0f} GiB" in found.text


def test_what_it_is_for_people():
    assert Hardware(processors=2, memory=0).text == "2 processors without a GPU"
    assert Hardware(processors=2, memory=8 * GIB).text == "2 processors without a GPU, 8 GiB"
    assert Hardware(processors=2, memory=80 * GIB, gpu="H100").text == "H100, 80 GiB"
