import pytest

from jobmanager.core import byte_sizes


@pytest.mark.parametrize(
    ("text", "size"), [("1KB", 1024), ("64 KB", 65536), ("128MB", 1 << 27), ("2GB", 1 << 31)]
)
def test_a_size_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert byte_sizes.parse(text) == size
    assert byte_sizes.parse(byte_sizes.render(size)) == size


@pytest.mark.parametrize("text", ["", "128", "MB", "1.5GB", "128mb", "-1MB", "128MB/s"])
def test_what_is_no_size_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size: write 64KB, 128MB or 1GB"):
        byte_sizes.parse(text)
