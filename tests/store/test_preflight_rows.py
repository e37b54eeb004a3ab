"""The hash that a preflight read is kept, and other bytes are refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from seatrial.core.errors import UsageError
from seatrial.store.ledger import open_ledger
from seatrial.store.preflight_rows import last_preflight, refuse_other_hash, remember_preflight

NOW = datetime(2031, 3, 9, 12, 30, tzinfo=timezone.utc)


def test_the_newest_preflight_counts(tmp_path: Path) -> None:
    file = str(tmp_path / "train.py")
    with open_ledger(str(tmp_path / "ledger.db")) as ledger:
        assert last_preflight(ledger, file) is None
        refuse_other_hash(ledger, file, "a" * 64)  # never preflighted: nothing to refuse
        remember_preflight(ledger, file, "a" * 64, True, NOW)
        remember_preflight(ledger, file, "b" * 64, False, NOW + timedelta(minutes=1))
        last = last_preflight(ledger, file)
        assert last is not None
        assert (last.sha256, last.passed, last.read) == (
            "b" * 64,
            False,
            NOW + timedelta(minutes=1),
        )
        refuse_other_hash(ledger, file, "b" * 64)
        with pytest.raises(UsageError) as refused:
            refuse_other_hash(ledger, file, "a" * 64)
    assert "a" * 64 in refused.value.message
    assert "b" * 64 in refused.value.message
    assert refused.value.remedy == f"seatrial preflight {file}"


def test_a_link_and_its_file_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x")
    (tmp_path / "link.py").symlink_to("train.py")
    with open_ledger(str(tmp_path / "ledger.db")) as ledger:
        remember_preflight(ledger, str(tmp_path / "train.py"), "a" * 64, True, NOW)
        with pytest.raises(UsageError):
            refuse_other_hash(ledger, str(tmp_path / "link.py"), "c" * 64)
