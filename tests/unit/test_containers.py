"""What the containers of docker-compose.yml and the Dockerfile may do."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_container_has_no_privileges_and_a_read_only_root(name: str) -> None:
    service: dict[str, Any] = COMPOSE["services"][name]

    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert "privileged" not in service
    assert service.get("user") != "root"


def test_no_password_is_in_an_environment() -> None:
    for name, service in COMPOSE["services"].items():
        for variable, value in service.get("environment", {}).items():
            assert "PASSWORD" not in variable or variable.endswith("_FILE"), name
            assert not re.search(r"//[^/@]*:[^/@]*@", str(value)), name


def test_postgres_and_the_jobmanager_read_the_password_from_one_secret() -> None:
    postgres, jobmanager = (COMPOSE["services"][name] for name in ("postgres", "jobmanager"))
    [secret] = COMPOSE["secrets"]

    assert postgres["secrets"] == jobmanager["secrets"] == [secret]
    file = f"/run/secrets/{secret}"
    assert postgres["environment"]["POSTGRES_PASSWORD_FILE"] == file
    assert jobmanager["environment"]["HEADGATE_DATABASE_PASSWORD_FILE"] == file


def test_the_image_ends_as_a_user_without_rights() -> None:
    users = re.findall(r"^USER (\S+)", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)

    assert users == ["headgate"]
