from detection_core.storage.local_copy import local_copy


def test_a_local_path_and_one_that_tensorflow_opens_are_taken_as_they_are(tmp_path):
    """Copies of what lies on a store are tested with every store, in test_object_store.py."""
    for path in (str(tmp_path), "gs://bucket/model"):
        with local_copy(path) as here:
            assert here == path
