"""The catalogue of connector packages."""

from typing import Any

import pytest

from jobmanager.core.connector_packages import (
    UnusableCatalogue,
    catalogue,
    parse_coordinates,
    parse_name,
    with_overrides,
)


def test_coordinates_name_a_file_in_a_repository() -> None:
    jar = parse_coordinates("org.postgresql:postgresql:42.7.7")

    assert jar.file_name == "postgresql-42.7.7.jar"
    assert str(jar.path) == "org/postgresql/postgresql/42.7.7/postgresql-42.7.7.jar"
    assert str(jar) == "org.postgresql:postgresql:42.7.7"


@pytest.mark.parametrize(
    "text", ["postgresql", "a:b", "a:b:c:d", "a/b:c:1", "a:b:../../etc", "a:..:1", "a:b: 1", ""]
)
def test_what_is_no_coordinates_is_refused(text: str) -> None:
    with pytest.raises(UnusableCatalogue, match="group:artifact:version"):
        parse_coordinates(text)


@pytest.mark.parametrize("text", ["", "Kafka", "../kafka", "a/b", ".kafka", "a" * 42])
def test_what_is_no_name_of_a_package_is_refused(text: str) -> None:
    with pytest.raises(UnusableCatalogue, match="not the name of a connector package"):
        parse_name(text)


def test_sparks_own_connectors_have_the_version_of_spark_first() -> None:
    kafka, avro = catalogue("4.3.0")["kafka"], catalogue("4.3.0")["avro"]

    assert [one.version for one in kafka.jars][:2] == ["4.3.0", "4.3.0"]
    assert [one.version for one in avro.jars] == ["4.3.0"]


def test_a_fallback_is_for_the_version_of_spark_that_it_was_seen_with_and_says_why() -> None:
    [seen] = catalogue("4.3.0")["kafka"].fallbacks

    assert "seen to work with Spark 4.3.0" in seen.why
    assert not catalogue("4.4.0")["kafka"].fallbacks


def test_a_site_replaces_the_jars_of_a_package_and_adds_its_own() -> None:
    site = {
        "kafka": {"jars": ["com.example:kafka-shaded:1"]},
        "mydb": {"jars": ["com.example:mydb:2"], "python": ["mydb>=3"], "purpose": "our database"},
    }

    found = with_overrides(catalogue("4.3.0"), site)

    assert [list(map(str, one.jars)) for one in found["kafka"].choices()] == [
        ["com.example:kafka-shaded:1"]
    ]
    assert found["mydb"].purpose == "our database"
    assert [str(one) for one in found["mydb"].python] == ["mydb>=3"]
    assert found["avro"] == catalogue("4.3.0")["avro"]


@pytest.mark.parametrize(
    ("site", "told"),
    [
        ({"kafka": ["a:b:1"]}, "package 'kafka' has to be a table"),
        ({"kafka": {"jar": "a:b:1"}}, "package 'kafka' has to be a table"),
        ({"kafka": {"jars": "a:b:1"}}, "jars of package 'kafka' is not a list"),
        ({"kafka": {"jars": ["a:b"]}}, "'a:b' is not of the form"),
        ({"My DB": {"jars": ["a:b:1"]}}, "'My DB' is not the name"),
        ({"mydb": {"python": ["my db"]}}, "'my db' is not a Python package"),
    ],
)
def test_a_fault_of_a_sites_file_is_named(site: dict[str, Any], told: str) -> None:
    with pytest.raises(UnusableCatalogue, match=told):
        with_overrides(catalogue("4.3.0"), site)
