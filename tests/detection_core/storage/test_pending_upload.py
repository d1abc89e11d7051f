import os

import pytest

from detection_core.storage.pending_upload import PendingTextUpload, PendingUpload


def test_what_was_written_is_uploaded_once_unless_its_block_fails_or_it_is_left_open():
    uploaded = []

    def upload(path):
        with open(path, "rb") as f:
            uploaded.append((path, f.read()))

    for kind in (PendingUpload, lambda u: PendingTextUpload(PendingUpload(u))):
        with pytest.raises(ZeroDivisionError), kind(upload):
            raise ZeroDivisionError
        left_open = kind(upload)
        del left_open
    assert uploaded == []
    with PendingUpload(upload) as f:
        f.write(b"one")
        assert uploaded == []
    f.close()
    text = PendingTextUpload(PendingUpload(upload))
    text.write("grün")
    text.close()
    assert [content for _, content in uploaded] == [b"one", "grün".encode()]
    assert not any(os.path.exists(path) for path, _ in uploaded)


def test_a_failed_upload_is_raised_and_removes_the_file():
    seen = []

    def fail(path):
        seen.append(path)
        raise OSError("no store")

    with pytest.raises(OSError, match="no store"), PendingUpload(fail):
        pass
    assert len(seen) == 1 and not os.path.exists(seen[0])
