"""An error that nobody foresaw is one line, and tells no secret (C2, Z7)."""

from __future__ import annotations

import pytest

from swath.domain.secret import Secret
from swath.entrypoints.cli import main as command_line
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.observability import logs
from swath.observability.masking import SecretMask

pytestmark = pytest.mark.req("C2", "Z7")


def test_an_unforeseen_error_is_masked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_mask", SecretMask([Secret("the operator's own word")]))

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("http://user:hunter22@proxy.example said: the operator's own word is wrong")

    monkeypatch.setattr(command_line.root, "main", broken)
    with pytest.raises(SystemExit) as ended:
        command_line.main(["jobs", "list"])
    told = capsys.readouterr().err
    assert ended.value.code == ExitCode.INTERNAL
    assert told.startswith("swath: internal error: RuntimeError: http://")
    assert told.count("\n") == 1
    assert "hunter22" not in told
    assert "own word" not in told
