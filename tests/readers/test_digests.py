"""Hashing files: the plain SHA-256, of a file that stands still, stoppable, with rows checked."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.errors import UsageError
from seatrial.readers import digests
from seatrial.readers.digests import Digest, DigestJob, digest_file, digest_files
from seatrial.readers.row_scan import MAX_ROW_BYTES, PARSE_WHOLE_BYTES


def job(path: Path, *, rows: bool = False) -> DigestJob:
    return DigestJob(str(path), f"input 'train' ({path.name})", rows)


def quiet(_text: str) -> None:
    pass


def rows_of(path: Path, text: bytes) -> Digest:
    path.write_bytes(text)
    return digest_file(job(path, rows=True))


def refused(path: Path, *, rows: bool = False) -> UsageError:
    with pytest.raises(UsageError) as caught:
        digest_file(job(path, rows=rows))
    assert caught.value.remedy
    return caught.value


def test_hashes_are_the_plain_ones_and_in_order(tmp_path: Path) -> None:
    sizes = [0, 1, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20 + 17, 5]
    contents = [os.urandom(size) for size in sizes]
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.bin").write_bytes(content)
    jobs = [job(tmp_path / f"{number}.bin") for number in range(len(sizes))]
    for workers in (1, 2, 5, None):
        found = digest_files(jobs, quiet, workers=workers)
        assert found == [Digest(hashlib.sha256(c).hexdigest(), len(c)) for c in contents]
    assert digest_files([], quiet) == []


def test_rows_are_counted_and_blank_lines_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert rows_of(path, b'{"a": 1}\n{"a": 2}\n').rows == 2
    assert rows_of(path, b'{"a": 1}\r\n\r\n\n{"a": 2}').rows == 2
    assert rows_of(path, b'\xef\xbb\xbf{"a": 1}\n[1]\n"x"\nNaN\n').rows == 4
    assert rows_of(path, b"\n\n").rows == 0
    assert rows_of(path, b"").rows == 0


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (b'{"a": 1}\n{"a": \n', 2, "no JSON"),
        (b'{"a": 1}\n\n{"a": 1', 3, "no JSON"),
        (b'{"a": "\xff"}\n', 1, "0xff is not UTF-8"),
        (b'{"a": 1}{"a": 2}\n', 1, "no JSON"),
        (b"a,b\n1,2\n", 1, "no JSON"),
        (b"[" * 200_000 + b"\n", 1, "nested too deeply"),
        (b'\n\xef\xbb\xbf{"a": 1}\n', 2, "no JSON"),
    ],
)
def test_a_row_that_is_no_json_is_refused(
    tmp_path: Path, text: bytes, line: int, reason: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(text)
    error = refused(path, rows=True)
    assert f"line {line}: " in error.message and reason in error.message
    assert error.remedy == f"sed -n {line}p {path}"
    assert digest_file(job(path)).rows is None  # not asked for: any bytes will do


def test_rows_over_the_border_of_two_reads(tmp_path: Path) -> None:
    row = json.dumps({"text": "x" * 700_001}).encode()
    path = tmp_path / "a.jsonl"
    assert rows_of(path, b"\n".join([row] * 5)) == Digest(
        hashlib.sha256(b"\n".join([row] * 5)).hexdigest(), len(row) * 5 + 4, 5
    )
    path.write_bytes(b"\n".join([row] * 4 + [row[:-1]]))
    assert "line 5" in refused(path, rows=True).message


def test_a_very_long_line_is_hashed_counted_and_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    text = b'{"a": 1}\n' + b'{"a": "' + b"x" * (MAX_ROW_BYTES + 2**21) + b'"}\n' + b"[2]\n"
    found = rows_of(path, text)
    assert (found.rows, found.unparsed, found.long_lines) == (3, 1, (2,))
    assert found.sha256 == hashlib.sha256(text).hexdigest()
    assert rows_of(path, text[: -len(b"\n[2]\n")]).rows == 2


def test_a_large_file_is_parsed_at_its_beginning_and_end(tmp_path: Path) -> None:
    row = json.dumps({"text": "x" * 4000}).encode() + b"\n"
    count = PARSE_WHOLE_BYTES // len(row) + 10
    path = tmp_path / "a.jsonl"
    found = rows_of(path, row * count)
    assert found.rows == count and 0 < found.unparsed < count
    assert rows_of(path, row * count + b"{}").rows == count + 1
    path.write_bytes(row * count + row[:100])  # cut while it was written
    assert f"line {count + 1}: it is no JSON" in refused(path, rows=True).message
    path.write_bytes(row * count + b"{\n")
    assert f"line {count + 1}: it is no JSON" in refused(path, rows=True).message
    path.write_bytes(row[:-2] + b"\n" + row * count)
    assert "line 1: it is no JSON" in refused(path, rows=True).message


def _meanwhile(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Let something happen to the file after its first bytes were read."""
    real = os.readv
    done: list[int] = []

    def readv(handle: int, views: Any) -> int:
        count = real(handle, views)
        if not done:
            done.append(1)
            change()
        return count

    monkeypatch.setattr(digests.os, "readv", readv)


def test_a_file_that_changes_while_it_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.bin"

    def fresh() -> None:
        path.write_bytes(b"x" * (3 * 2**20))
        os.utime(path, ns=(10**18, 10**18))

    def grow() -> None:
        with path.open("ab") as file:
            file.write(b"more")

    def overwrite() -> None:
        with path.open("r+b") as file:
            file.write(b"y")

    def replace() -> None:
        other = tmp_path / "b.bin"
        other.write_bytes(b"x" * (3 * 2**20))
        os.utime(other, ns=(10**18, 10**18))
        other.rename(path)

    for change, words in (
        (grow, "changed from 3145728 to 3145732 bytes while it was hashed"),
        (overwrite, "was written to while it was hashed"),
        (lambda: os.truncate(path, 5), "changed from 3145728 to 5 bytes"),
        (replace, "was replaced by another file while it was hashed"),
        (path.unlink, "was replaced by another file"),
    ):
        fresh()
        with monkeypatch.context() as patch:
            _meanwhile(patch, change)
            assert words in refused(path).message
        path.unlink(missing_ok=True)
    fresh()
    with monkeypatch.context() as patch:
        _meanwhile(patch, lambda: None)
        assert digest_file(job(path)).size == 3 * 2**20


def test_a_file_that_grows_with_every_read_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.bin"
    path.write_bytes(b"x" * 2**22)
    reads: list[int] = []
    real = os.readv

    def readv(handle: int, views: Any) -> int:
        with path.open("ab") as file:
            file.write(b"y" * 2**20)
        reads.append(1)
        return real(handle, views)

    monkeypatch.setattr(digests.os, "readv", readv)
    assert "changed from 4194304" in refused(path).message and len(reads) == 5


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in refused(tmp_path / "pipe").message
    assert "no such file" in refused(tmp_path / "none").message
    assert "folder" in refused(tmp_path).message


def test_one_fault_ends_all_or_is_put_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    jobs = [job(tmp_path / "a"), job(tmp_path / "none"), job(tmp_path / "a")]
    with pytest.raises(UsageError, match="no such file"):
        digest_files(jobs, quiet)
    first, fault, last = digest_files(jobs, quiet, keep_going=True)
    assert isinstance(fault, UsageError) and first == last == digest_file(job(tmp_path / "a"))


def test_an_unreadable_file(as_user: Path) -> None:
    path = as_user / "secret.bin"
    path.write_bytes(b"x")
    path.chmod(0)
    assert "cannot be read: Permission denied" in refused(path).message


CHILD = """
import sys
from seatrial.readers.digests import DigestJob, digest_files
jobs = [DigestJob(path, path) for path in sys.argv[1:]]
def say(text):
    print(text, flush=True)
try:
    digest_files(jobs, say)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def test_fifty_gigabytes_of_nothing_show_progress_and_stop_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        try:
            file.truncate(50 * 10**9)
        except OSError as error:
            pytest.skip(f"this file system takes no sparse file of 50 GB: {error}")
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("hashing: ") and "of 46.6 GiB, 0 of 1 files done" in first
        with open(f"/proc/{process.pid}/statm", encoding="ascii") as handle:
            resident = int(handle.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert resident < 100 * 2**20
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert out.splitlines()[-1] == "stopped"
    finally:
        process.kill()
        process.wait()
