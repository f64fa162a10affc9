"""Tags of answers, and what a client says that it has."""

import pytest

from jobmanager.core.entity_tags import entity_tag, names_tag

TAG = entity_tag(b'{"jobs": []}')


def test_the_same_text_has_the_same_tag_and_another_text_another() -> None:
    assert entity_tag(b'{"jobs": []}') == TAG
    assert entity_tag(b'{"jobs": [] }') != TAG
    assert TAG.startswith('"')
    assert TAG.endswith('"')


@pytest.mark.parametrize(
    ("told", "is_named"),
    [
        (TAG, True),
        (f"W/{TAG}", True),
        (f'"other", {TAG}', True),
        (f'W/"a,b",W/{TAG}', True),
        ("*", True),
        (" * ", True),
        ('"other"', False),
        (TAG.strip('"'), False),
        ("", False),
        ('"', False),
    ],
)
def test_what_a_client_names(told: str, is_named: bool) -> None:
    assert names_tag(told, TAG) is is_named
