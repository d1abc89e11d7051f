from components.example_gen.transforms import IN_PROCESS, choose_arguments


def test_processes_are_started_only_where_that_pays():
    assert choose_arguments(1000, 16) == IN_PROCESS
    assert choose_arguments(10_000_000, 1) == IN_PROCESS
    assert choose_arguments(50_000, 2) == IN_PROCESS
    assert "--direct_num_workers=16" in choose_arguments(50_000, 16)
    assert "--direct_running_mode=multi_processing" in choose_arguments(118_000, 2)


def test_no_choice_hands_the_pipeline_to_a_runner_that_must_be_downloaded():
    for images in (1, 10_000_000):
        assert "--runner=FnApiRunner" in choose_arguments(images, 8)
