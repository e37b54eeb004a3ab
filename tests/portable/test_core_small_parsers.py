"""Limited JSON and /proc lines: what anybody may have written."""

from __future__ import annotations

from seatrial.core.limited_json import parse_limited
from seatrial.core.proc_stat import parse_proc_stat

REST = " 12 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1"


def refused(data: bytes, depth: int = 64) -> str:
    try:
        parse_limited(data, depth)
    except ValueError as error:
        return str(error) or "refused"
    return ""


def test_json_within_the_limits_is_read() -> None:
    assert parse_limited(b'{"a": [1, {"b": "nan"}]}') == {"a": [1, {"b": "nan"}]}
    assert parse_limited(b"[" * 64 + b"]" * 64)


def test_json_beyond_the_limits_is_refused() -> None:
    assert "deeper than 64" in refused(b"[" * 65 + b"]" * 65)
    assert "deeper than 64" in refused(b"[" * 100_000 + b"]" * 100_000)
    assert "deeper than 2" in refused(b'{"a": {"b": {"c": 1}}}', 2)
    for data in (b"", b"{", b"\xff", b"NaN", b"[Infinity]", b"1 2", b"\0"):
        assert refused(data), data


def test_a_process_name_of_any_kind_does_not_shift_the_fields() -> None:
    for name in ("python", "a b", "a) R 1 (b", "()", "\u00e9"):
        stat = parse_proc_stat(f"77 ({name}) S{REST}\n")
        assert (stat.state, stat.parent, stat.start_ticks) == ("S", 12, 4711), name
        assert not stat.is_gone
    assert parse_proc_stat(f"77 (x) Z{REST}").is_gone


def test_other_texts_are_no_process() -> None:
    for text in ("", "77 (x", "77 (x) S 1 2", "no brackets " + "1 " * 60):
        try:
            parse_proc_stat(text)
        except ValueError:
            continue
        raise AssertionError(text)
