"""Docstrings, comments, messages and pages are in plain English; the hook refuses long subjects."""

from tests.docs import language


def test_no_word_of_the_former_dialect_is_left():
    assert [line for path in language.files(language.PLACES) for line in language.words_in(path)] == []


def test_words_are_found_with_their_lines_and_long_sentences_with_their_count(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        '"""Read\n\nanew."""\n# such a file; no such file\nERROR = "a rule of its own"\n'
        "could_not = 'such as here, told_you, suchlike'\n"
    )
    found = [line.split(";")[0] for line in language.words_in(module)]
    assert sorted(found) == [
        "module.py:3: 'anew'",
        "module.py:4: 'such'",
        "module.py:5: 'of its own'",
        "module.py:6: the name could_not",
    ]
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```sh\nmake anew\n```\n\nIt is told\n`anew` here.\n")
    assert [line.split(";")[0] for line in language.words_in(page)] == ["page.md:7: 'told'"]
    page = tmp_path / "page.md"
    page.write_text(f"Short. {' '.join(['word'] * 23)}. Short again.\n\n{' '.join(['word'] * 22)}.\n")
    (line,) = language.long_sentences(page)
    assert line.startswith("page.md:1: 23 words: word")


def test_the_hook_wants_a_short_subject_and_a_body(tmp_path, capsys):
    message = tmp_path / "message"
    for text, fault in (
        ("Add a thing\n\nIt was missing.\n", None),
        ("Merge branch 'a' into b\n", None),
        (f"{'a' * 73}\n\nIt was missing.\n", "at most 72 characters, found 73"),
        ("Add a thing\n\n# comment\n", "a body that says why, found none"),
    ):
        message.write_text(text)
        assert language.main(["--message", str(message)]) == (1 if fault else 0)
        assert (fault or "") in capsys.readouterr().err
