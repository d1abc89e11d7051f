from detection_core import ConfigError
from detflow import model_spec, object_detector
from tests.support.refusals import not_refused


def test_a_name_gives_a_specification_or_is_refused():
    for name, size in (("efficientdet_lite0", 320), ("efficientdet_lite2", 448), ("efficientdet_lite4", 640)):
        spec = model_spec.get(name, epochs=3)
        assert (spec.epochs, spec.batch_size, spec.config.image_size) == (3, 64, (size, size))
        assert model_spec.get(spec) is spec
    assert model_spec.get(object_detector.EfficientDetLite1Spec, batch_size=4).batch_size == 4
    assert len(model_spec.OBJECT_DETECTION_MODELS) == 5
    cases = [
        ("efficientdet_lite5", "^model_spec: .*did you mean efficientdet_lite"),
        ("bert_qa", "^model_spec: .*other tasks"),
    ]
    assert not not_refused(model_spec.get, cases, ConfigError)
