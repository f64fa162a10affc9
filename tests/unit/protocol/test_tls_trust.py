"""Who believes which certificate; found out without a network."""

from pathlib import Path
from typing import Any

import pytest

from jobmanager.protocol.tls_trust import fault_of_certificate, fault_of_key
from jobmanager.settings import Settings
from jobmanager.tls_files import UnusableTls, check_certificate, check_files
from tests.support.certificates import Authority


def test_a_certificate_is_for_its_hosts_and_for_who_believes_its_authority(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    issued = ours.issue("127.0.0.1", "headgate.example")

    def fault(ca: Path, host: str) -> str | None:
        return fault_of_certificate(issued.certificate, issued.key, ca, host)

    assert fault(ours.certificate, "127.0.0.1") is None
    assert fault(ours.certificate, "headgate.example") is None
    assert "not valid for '127.0.0.2'" in (fault(ours.certificate, "127.0.0.2") or "")
    assert "local issuer" in (fault(theirs.certificate, "127.0.0.1") or "")
    assert fault(issued.certificate, "127.0.0.1") is None  # the certificate itself will do


def test_files_that_no_server_can_use(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.issue("a", name="a"), authority.issue("b", name="b")
    (tmp_path / "text").write_text("no certificate")

    assert fault_of_key(one.certificate, one.key) is None
    assert fault_of_key(one.certificate, other.key) is not None
    assert fault_of_key(tmp_path / "text", one.key) is not None
    assert fault_of_key(tmp_path / "missing", one.key) == "No such file or directory"


def test_a_server_is_told_before_it_starts_that_no_runner_would_believe_it(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("headgate.example")
    told: dict[str, Any] = {"tls_cert": issued.certificate, "tls_key": issued.key}

    check_files(Settings(**told))
    with pytest.raises(UnusableTls, match="--advertise https://NAME:PORT"):
        check_certificate(Settings(**told), "https://127.0.0.1:8081")
    check_certificate(Settings(**told), "https://headgate.example:8081")
    with pytest.raises(UnusableTls, match="--ca"):
        check_files(Settings(**told, ca=tmp_path / "missing"))
    with pytest.raises(UnusableTls, match="cannot be used for TLS"):
        check_files(Settings(tls_cert=issued.key, tls_key=issued.certificate))


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"require_tokens": True, "insecure": True}, "exclude each other"),
        ({"tls_cert": "a.pem"}, "belong together"),
        ({"trusted_proxies": ["proxy.example"]}, "neither an IP address nor a network"),
        (
            {"tls_cert": "a.pem", "tls_key": "b.pem", "advertise": "http://headgate.example"},
            "advertise https://",
        ),
    ],
)
def test_settings_that_contradict_each_other(told: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Settings(**told)


def test_which_settings_need_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADGATE_HOST", raising=False)

    assert not Settings().exposure.needs_tokens
    assert Settings(require_tokens=True).exposure.needs_tokens
    assert Settings(host="0.0.0.0").exposure.needs_tokens
    assert not Settings(host="0.0.0.0", insecure=True).exposure.needs_tokens
    assert Settings(trusted_proxies=("10.0.0.0/8",)).exposure.needs_tokens
    monkeypatch.setenv("HEADGATE_TRUSTED_PROXIES", "10.0.0.1, 10.1.0.0/16")
    assert Settings().trusted_proxies == ("10.0.0.1", "10.1.0.0/16")
