"""Places by name: one form for all ways to write one, and no way to write around a root."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.paths.allowed_paths import (
    AllowedPaths,
    Root,
    root_fault,
    roots_of,
)
from jobmanager.core.paths.location import UnclearLocation, file_location, location_of

NAMES = st.sampled_from(["data", "in", "out", "..", ".", "", "etc", "..."])


def rule(*roots: str, data_root: str = "/srv/data") -> AllowedPaths:
    found = [location_of(one, data_root) for one in (*roots, data_root)]
    return AllowedPaths(data_root, tuple(Root(one, one) for one in found))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/data/in", "/data/in"),
        ("/data//in/./x/..", "/data/in"),
        ("/../../data", "/data"),
        ("in/x", "/srv/data/in/x"),
        ("../other", "/srv/other"),
        ("file:/data/in", "/data/in"),
        ("file:///data/in/", "/data/in"),
        ("file://localhost/data/in", "/data/in"),
        ("file:///data/%2e%2e/etc", "/etc"),
        ("FILE:///data/in", "/data/in"),
        ("/data/%2e%2e/etc", "/data/%2e%2e/etc"),
        ("s3://bucket/a//./b/", "s3://bucket/a/b"),
        ("s3://bucket", "s3://bucket"),
        ("socket://host:9999", "socket://host:9999"),
    ],
)
def test_each_way_to_write_a_place_is_one_place(text: str, place: str) -> None:
    assert str(location_of(text, "/srv/data")) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        " file:///etc/passwd",  # which a reader of URIs takes for a file: URI
        "\tfile:///etc/passwd",
        "/data/in\0",
        "/data/in ",
        "fi\nle:///etc",
        "file://otherhost/data",
        "file:relative",
        "file:///data?x",
        "file:///data#x",
        "file:///data/%00",
        "s3:/bucket",
        "s3://",
        "s3:///data",
        "s3://bucket/../other",
        "s3://bucket/%2e%2e/other",
        "s3://key@bucket/data",
        "simplecache::s3://bucket/data",
        "s3://bucket/a\\..\\b",
    ],
)
def test_what_two_readers_could_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(UnclearLocation):
        location_of(text, "/srv/data")


@given(st.lists(NAMES, max_size=8))
def test_a_normal_path_has_no_steps_back_and_stays_as_it_is(names: list[str]) -> None:
    found = location_of("/" + "/".join(names), "/srv/data")

    assert ".." not in found.path.parts
    assert location_of(str(found), "/srv/data") == found


@given(st.lists(NAMES, max_size=8))
def test_what_is_allowed_is_below_a_root(names: list[str]) -> None:
    text = "/" + "/".join(names)
    allowed = rule("/data/in").fault(text) is None
    place = location_of(text, "/").path

    roots = (PurePosixPath("/data/in"), PurePosixPath("/srv/data"))
    assert allowed == any(place == root or root in place.parents for root in roots)


@pytest.mark.parametrize(
    "text",
    [
        "/data/input",  # begins with the same letters
        "/data",
        "/data/in/../../etc",
        "s3://bucket/in",
        "s3://bucket2/data",
        "S3://bucket/data/x",
        "s3a://bucket/data/x",
        "s3://BUCKET/data/x",
        "gs://bucket/data",
        "socket://host:9998",
    ],
)
def test_only_what_is_below_a_root_of_the_same_scheme_and_bucket_is_allowed(text: str) -> None:
    some = rule("/data/in", "s3://bucket/data", "socket://host:9999")

    fault = some.fault(text)

    assert fault is not None
    assert "this server allows /data/in, s3://bucket/data, socket://host:9999, /srv/data" in fault


def test_roots_and_what_is_below_are_allowed() -> None:
    some = rule("/data/in", "s3://bucket/data", "socket://host:9999")

    for text in ("/data/in", "/data/in/x", "x", "s3://bucket/data/a", "socket://host:9999"):
        assert some.fault(text) is None


def test_where_a_link_leads_counts_by_the_resolved_roots() -> None:
    root = Root(file_location("/data"), file_location("/mnt/disk1"))
    some = AllowedPaths("/data", (root,))

    assert some.fault("/data/in") is None
    assert some.link_fault("/data/in", file_location("/mnt/disk1/in")) is None
    told = some.link_fault("/data/in", file_location("/etc"))
    assert told is not None
    assert "leads to /etc through a symbolic link" in told


def test_a_server_that_only_its_machine_reaches_takes_any_path_until_it_is_told_roots() -> None:
    storage = ["file:///srv/storage", "s3://bucket/checkpoints"]

    assert roots_of([], "/srv/data", storage, takes_any=True) is None
    assert roots_of(["/x"], "/srv/data", storage, takes_any=True) == (
        ("/x", "/srv/data"),
        ("/x", "/srv/data", *storage),
    )
    assert roots_of([], "/srv/data", storage, takes_any=False) == (
        ("/srv/data",),
        ("/srv/data", *storage),
    )


@pytest.mark.parametrize("text", ["data", "../x", "s3://", "file://host/x", "s3://b/../c"])
def test_a_root_that_is_no_place_is_told(text: str) -> None:
    assert root_fault(text)


@pytest.mark.parametrize("text", ["/data", "file:///data", "s3://bucket", "socket://host:99"])
def test_a_root_is_a_path_or_a_uri(text: str) -> None:
    assert root_fault(text) is None
