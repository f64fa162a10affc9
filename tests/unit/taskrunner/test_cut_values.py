from taskrunner.core.cut_values import MOST_CHARACTERS, cut


def test_long_texts_are_cut_however_deep_they_are() -> None:
    long = "ab" * MOST_CHARACTERS
    short = "ab" * (MOST_CHARACTERS // 2)

    assert cut({"a": [long, 1, None], "b": short}) == {
        "a": [f"{short}… (4,000 characters)", 1, None],
        "b": short,
    }
