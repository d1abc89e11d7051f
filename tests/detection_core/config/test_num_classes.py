from detection_core.config import num_classes
from detection_core.config.load import parse_pipeline_config
from detection_core.config.num_classes import configured_classes, with_classes
from tests.support.cases import cases

BACKGROUND = "explicit_background_class: true"


def config(text, arm="ssd"):
    return parse_pipeline_config(f"model {{ {arm} {{ {text} }} }}")


@cases(
    ("num_classes: 4", 4, 4),
    ("", None, 7),
    (BACKGROUND, None, 8),
    (f"num_classes: 4 {BACKGROUND}", 3, 4),
    ("num_classes: 0", 0, 0),  # wrong, and for the check to say so
)
def test_a_number_that_is_left_out_is_filled_in_and_a_given_one_stays(*, text, given, filled):
    before = config(text)
    assert configured_classes(before) == given
    after = with_classes(before, 7)
    assert after.model.ssd.num_classes == filled
    assert configured_classes(before) == given
    assert configured_classes(after) == (7 if given is None else given)


def test_every_model_has_the_field_and_an_explicit_background_is_no_class():
    assert num_classes.foreground_classes(config(f"num_classes: 4 {BACKGROUND}").model.ssd) == 3
    assert num_classes.foreground_classes(config("num_classes: 4").model.ssd) == 4
    for arm in ("ssd", "faster_rcnn", "center_net", "experimental_model"):
        assert num_classes.classes_field(config("", arm)) == f"model.{arm}.num_classes"
        assert configured_classes(with_classes(config("", arm), 3)) == 3
    empty = parse_pipeline_config("")
    assert configured_classes(empty) is None
    assert with_classes(empty, 3) == empty
