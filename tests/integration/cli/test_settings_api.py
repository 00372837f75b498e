"""T3: the settings of the API and of webhooks; what is secret in them is not told."""

from __future__ import annotations

from pathlib import Path

import pytest

from swath.domain.errors import BadInput
from swath.domain.secret import Secret
from swath.settings import MASK, load, load_settings, mask_setting

pytestmark = pytest.mark.req("T3")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_they_are_read_from_variables() -> None:
    settings = load_settings(
        {
            "SWATH_HOST": "[::1]",
            "SWATH_PORT": "0",
            "SWATH_ALLOWED_HOSTS": "swath.example, OTHER.example",
            "SWATH_WEBHOOK_SECRET": "one-secret two-secret",
            "SWATH_WEBHOOK_RETRY_SECONDS": "1, 2.5 4",
            "SWATH_WEBHOOK_URL": "https://x.example/hooks/?a=b",
            "SWATH_LOG_FORMAT": "TEXT",
            "SWATH_TRACES": "on",
        }
    )
    assert (settings.host, settings.port) == ("::1", 0)
    assert settings.allowed_hosts == ("swath.example", "other.example")
    assert settings.webhook_secret == (Secret("one-secret"), Secret("two-secret"))
    assert settings.webhook_retry_seconds == (1.0, 2.5, 4.0)
    assert settings.webhook_url == "https://x.example/hooks/?a=b"  # as it was given: its last slash means something
    assert (settings.log_format, settings.traces) == ("text", True)


def test_lists_may_be_lists_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "swath.toml").write_text('webhook_retry_seconds = [1, 2]\nwebhook_secret = ["a", "b"]\nport = 9000\n')
    settings = load_settings({})
    assert (settings.webhook_retry_seconds, len(settings.webhook_secret), settings.port) == ((1.0, 2.0), 2, 9000)


@pytest.mark.req("Z5", "Z7")
@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("PORT", "65536", "65535"),
        ("PORT", "-1", "above 0"),
        ("HOST", "http://x", "127.0.0.1"),
        ("LOG_FORMAT", "xml", "json or text"),
        ("WEBHOOK_URL", "ftp://x.example/t0ken", "http://"),
        ("WEBHOOK_URL", "https://user:t0ken@x.example/", "without a user"),
        ("WEBHOOK_URL", "https://x.example\\@t0ken/", "http://"),
        ("WEBHOOK_SECRET", "whsec_t0ken!", "base64"),
        ("WEBHOOK_RETRY_SECONDS", "2, soon", "above 0"),
        ("QUEUE_DEPTH", "0", "above 0"),
        ("MAX_BODY_BYTES", "1.5", "whole number"),
        ("SERVER", "localhost:8000", "http://"),
    ],
)
def test_what_cannot_be_used_is_refused_and_no_secret_is_told(variable: str, value: str, told: str) -> None:
    with pytest.raises(BadInput) as raised:
        load_settings({f"SWATH_{variable}": value})
    assert told in str(raised.value)
    assert "t0ken" not in str(raised.value)


@pytest.mark.req("Z7")
def test_what_is_shown_of_a_webhooks_address_is_where_it_leads_to() -> None:
    assert mask_setting("webhook_url", "https://x.example:8443/hooks/t0ken?k=v") == f"https://x.example:8443/{MASK}"
    assert mask_setting("SWATH_WEBHOOK_URL", "https://x.example?t0ken") == f"https://x.example/{MASK}"
    assert mask_setting("service_key", "sk_1_t0ken") == MASK
    unknown = load({"SWATH_WEBHOOK_TOKN": "t0ken", "SWATH_WEBHOKS": "x"}).unknown
    assert unknown["SWATH_WEBHOOK_TOKN"] == MASK
