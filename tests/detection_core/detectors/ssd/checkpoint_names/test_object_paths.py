import tf_keras

from detection_core.detectors.ssd.checkpoint_names.object_paths import names_of


def test_names_of_a_network_tell_weights_and_padding():
    inputs = tf_keras.Input((8, 8, 3), name="image")
    features = tf_keras.layers.ZeroPadding2D(1, name="first_pad")(inputs)
    features = tf_keras.layers.Conv2D(4, 3, name="first")(features)
    features = tf_keras.layers.Conv2D(4, 3, name="second")(features)
    names = names_of(tf_keras.Model(inputs, features))
    assert names.weighted == ("first", "second")
    assert names.all == {"image", "first_pad", "first", "second"}
    assert [names.slot_after_padding(name) for name in names.weighted] == [1, 0]
