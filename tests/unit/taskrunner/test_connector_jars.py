"""The jars of connectors in the settings of a Spark session."""

import hashlib
import json
from pathlib import Path

import pytest

from taskrunner.spark.session import connector_jars
from taskrunner.spark.session.connector_jars import JARS, ConnectorJarDamaged
from taskrunner.spark.session.session import settings


def chosen(*jars: str, **extra: str) -> dict[str, str]:
    return settings(name="j", master="local[2]", parallelism=2, extra=extra, jars=jars)


def test_a_session_has_the_jars_of_its_job_and_no_setting_without_any() -> None:
    assert chosen("/a.jar", "/b.jar")[JARS] == "/a.jar,/b.jar"
    assert JARS not in chosen()


def test_jars_that_the_job_names_itself_stay() -> None:
    assert chosen("/a.jar", **{JARS: "/own.jar, /a.jar"})[JARS] == "/a.jar,/own.jar"


def test_a_session_with_more_jars_is_kept() -> None:
    warm = chosen("/a.jar", "/b.jar")

    assert connector_jars.keeping(warm, chosen("/b.jar"))[JARS] == "/a.jar,/b.jar"
    assert connector_jars.keeping(warm, chosen())[JARS] == "/a.jar,/b.jar"


def test_a_session_that_lacks_a_jar_is_not_kept() -> None:
    wanted = chosen("/a.jar", "/c.jar")

    assert connector_jars.keeping(chosen("/a.jar", "/b.jar"), wanted) == wanted
    assert connector_jars.keeping(chosen(), wanted) == wanted


def test_a_jar_is_used_only_with_its_checksum(tmp_path: Path) -> None:
    jar = tmp_path / "thing.jar"
    jar.write_bytes(b"right")
    sha256 = hashlib.sha256(b"right").hexdigest()
    argument = json.dumps([{"path": str(jar), "sha256": sha256}])
    assert connector_jars.from_argument(argument) == [str(jar)]

    jar.write_bytes(b"wrong")
    with pytest.raises(ConnectorJarDamaged, match="was changed since it was installed"):
        connector_jars.from_argument(argument)

    jar.unlink()
    with pytest.raises(ConnectorJarDamaged, match="headgate connectors install"):
        connector_jars.checked([(str(jar), sha256)])
