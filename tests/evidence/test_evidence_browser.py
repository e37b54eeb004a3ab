"""The page in a real headless Chromium: light, dark, phone; no request, no script, no overflow."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from seatrial.evidence.page import render_page
from seatrial.evidence.report_input import ReportInput

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's package chromium on PATH"),
]
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--hide-scrollbars", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
]  # fmt: skip
BROWSERS_OWN = re.compile(r"(^|\.)(google\.com|googleapis\.com|gstatic\.com)$")
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
# A window is never narrower than 500 pixels here; a frame inside it is, and has its own viewport.
PROBE = """<!doctype html><iframe width="%d" height="900" style="border:0" srcdoc="%s"></iframe>
<script>addEventListener("load", () => {
  const frame = document.querySelector("iframe"), page = frame.contentDocument;
  const inner = frame.contentWindow.innerWidth;
  const right = e => e.getBoundingClientRect().right, left = e => e.getBoundingClientRect().left;
  const wide = [...page.body.querySelectorAll("*")].filter(e =>
    !e.closest(".scroll *") && right(e) > inner + 0.5);
  const cut = [...page.querySelectorAll(".chart text")].filter(e => {
    const chart = e.closest("svg");
    return left(e) < left(chart) - 1 || right(e) > right(chart) + 1; });
  document.body.textContent = "PROBE" + JSON.stringify({
    width: inner, scroll: page.scrollingElement.scrollWidth,
    wide: wide.slice(0, 5).map(e => e.outerHTML.slice(0, 120)),
    cut: cut.slice(0, 5).map(e => e.textContent)}) + "END";
})</script>"""


@dataclass(frozen=True)
class Seen:
    """What one visit left: the document, console messages and addresses that were asked for."""

    dom: str
    console: tuple[str, ...]
    hosts: frozenset[str]


def chromium(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    profile = folder / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    return subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "--enable-logging=stderr",
         "--host-resolver-rules=MAP * ~NOTFOUND", *arguments],
        capture_output=True, text=True, encoding="utf-8", timeout=90, check=True,
    )  # fmt: skip


def visit(folder: Path, html: str, width: int = 1200) -> Seen:
    page, log = folder / "a page.html", folder / "net.json"
    page.write_text(html, encoding="utf-8")
    done = chromium(
        folder, f"--window-size={width},900", f"--log-net-log={log}", "--dump-dom", page.as_uri()
    )
    text = log.read_text(encoding="utf-8").rstrip()
    try:
        events = json.loads(text)["events"]
    except ValueError:  # the browser left while it was writing the end
        events = json.loads(text.rstrip(",") + "]}")["events"]
    urls = [event["params"]["url"] for event in events if "url" in event.get("params", {})]
    hosts = {urlsplit(url).hostname or "" for url in urls if url.startswith(("http", "ws", "ftp"))}
    return Seen(
        dom=done.stdout,
        console=tuple(re.findall(r"CONSOLE:\d+\] (.*)", done.stderr)),
        hosts=frozenset(host for host in hosts if not BROWSERS_OWN.search(host)),
    )


def screenshot(
    folder: Path, html: str, name: str, width: int, *flags: str, height: int = 700
) -> tuple[int, int, list[bytes]]:
    page, image = folder / f"{name}.html", folder / f"{name}.png"
    page.write_text(html, encoding="utf-8")
    chromium(
        folder, f"--window-size={width},{height}", f"--screenshot={image}", *flags, page.as_uri()
    )
    return decoded_png(image.read_bytes())


def decoded_png(data: bytes) -> tuple[int, int, list[bytes]]:
    """Width, height and RGB rows of an 8-bit PNG without interlacing."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, header = 8, b"", b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        header = body if kind == b"IHDR" else header
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    assert (depth, interlaced) == (8, 0)
    step = {2: 3, 6: 4}[colour]
    raw, stride = zlib.decompress(packed), width * step
    rows: list[bytes] = []
    before = bytearray(stride)
    for row in range(height):
        start = row * (stride + 1)
        line = bytearray(raw[start + 1 : start + 1 + stride])
        unfilter(raw[start], line, before, step)
        rows.append(
            bytes(line) if step == 3 else bytes(line[i] for i in range(stride) if i % 4 < 3)
        )
        before = line
    return width, height, rows


def unfilter(kind: int, line: bytearray, above: bytearray, step: int) -> None:
    """Undo one row's filter in place."""
    if kind == 0:
        return
    for i in range(len(line)):
        left = line[i - step] if i >= step else 0
        up = above[i]
        if kind == 1:
            line[i] = (line[i] + left) & 255
        elif kind == 2:
            line[i] = (line[i] + up) & 255
        elif kind == 3:
            line[i] = (line[i] + (left + up) // 2) & 255
        else:
            corner = above[i - step] if i >= step else 0
            guess = left + up - corner
            a, b, c = abs(guess - left), abs(guess - up), abs(guess - corner)
            near = left if a <= b and a <= c else up if b <= c else corner
            line[i] = (line[i] + near) & 255


def pixel(rows: list[bytes], x: int, y: int) -> tuple[int, int, int]:
    red, green, blue = rows[y][3 * x : 3 * x + 3]
    return red, green, blue


def share_of(rows: list[bytes], colour: tuple[int, int, int]) -> float:
    wanted = bytes(colour)
    hits = sum(row[i : i + 3] == wanted for row in rows for i in range(0, len(row), 3))
    return hits / sum(len(row) // 3 for row in rows)


def measured(folder: Path, html: str, width: int) -> dict[str, Any]:
    html = POLICY.sub("", html).replace("<details>", "<details open>")
    seen = visit(folder, PROBE % (width, escape(html)), 1300)
    found = re.search(r"PROBE(\{.*\})END", seen.dom, re.DOTALL)
    assert found, seen.dom[:500]
    probe: dict[str, Any] = json.loads(unescape(found.group(1)))
    assert probe["width"] == width
    return probe


@pytest.mark.parametrize(
    ("name", "width"),
    [("pass", 375), ("fail", 375), ("odd", 375), ("hostile", 375), ("fail", 1200), ("pass", 700)],
)
def test_nothing_is_wider_than_the_window(
    reports: Mapping[str, ReportInput], tmp_path: Path, name: str, width: int
) -> None:
    probe = measured(tmp_path, render_page(reports[name]), width)
    assert probe["wide"] == []
    assert probe["scroll"] <= width
    if name in ("pass", "fail"):
        assert probe["cut"] == []


def test_a_page_that_is_too_wide_would_be_seen(
    reports: Mapping[str, ReportInput], tmp_path: Path
) -> None:
    html = render_page(reports["empty"]).replace("<main>", '<main><svg width="400"></svg>')
    probe = measured(tmp_path, html, 375)
    assert [found[:4] for found in probe["wide"]] == ["<svg"]
    assert probe["scroll"] > 375


def test_a_page_asks_for_nothing_and_says_nothing_on_the_console(
    reports: Mapping[str, ReportInput], tmp_path: Path
) -> None:
    seen = visit(tmp_path, render_page(reports["hostile"]))
    assert seen.hosts == frozenset()
    assert seen.console == ()
    assert "<title>FAIL: " in seen.dom


def test_the_policy_blocks_what_would_get_in_and_the_test_would_see_it(
    reports: Mapping[str, ReportInput], tmp_path: Path
) -> None:
    planted = render_page(reports["fail"]).replace(
        "<body>",
        '<body><img src="http://planted.invalid/a.png" alt="">'
        '<script>document.title = "owned"</script>',
    )
    held = visit(tmp_path, planted)
    assert held.hosts == frozenset()
    assert len(held.console) == 2
    assert all("Content Security Policy" in message for message in held.console)
    assert "<title>owned" not in held.dom
    open_door = visit(tmp_path, POLICY.sub("", planted))
    assert open_door.hosts == {"planted.invalid"}
    assert "<title>owned" in open_door.dom


def test_light_dark_and_phone_are_really_drawn(
    reports: Mapping[str, ReportInput], tmp_path: Path
) -> None:
    html = render_page(reports["fail"])
    _width, _height, light = screenshot(tmp_path, html, "light", 1200, height=420)
    dark_flag = "--blink-settings=preferredColorScheme=0"
    _width, _height, dark = screenshot(tmp_path, html, "dark", 1200, dark_flag, height=420)
    assert pixel(light, 5, 5) == (0xF4, 0xF6, 0xF9)
    assert pixel(dark, 5, 5) == (0x10, 0x15, 0x1C)
    # the badge: a wide field of its soft colour, and the solid sign in it
    assert share_of(light[60:220], (0xFC, 0xEB, 0xE9)) > 0.4
    assert share_of(light[60:220], (0xA3, 0x20, 0x1A)) > 0.005
    assert share_of(dark[60:220], (0x3B, 0x18, 0x16)) > 0.4
    phone = screenshot(tmp_path, html, "phone", 375)
    assert phone[:2] == (375, 700)
    assert share_of(phone[2][60:300], (0xFC, 0xEB, 0xE9)) > 0.3


def curves_alone(html: str) -> str:
    start, end = html.index('<section aria-labelledby="curves">'), html.index('id="not-judged"')
    head = html[: html.index("<main>") + len("<main>")]
    return head + html[start:end] + "</section></main></body></html>"


def test_a_chart_shows_its_curve_its_gates_and_its_bad_values(
    reports: Mapping[str, ReportInput], tmp_path: Path
) -> None:
    curve, bad, gate = (0x1F, 0x5F, 0xA8), (0xA3, 0x20, 0x1A), (0x6F, 0x4A, 0x00)
    failed = screenshot(tmp_path, curves_alone(render_page(reports["fail"])), "failed", 1000)[2]
    assert share_of(failed, curve) > 0.0005
    assert share_of(failed, bad) > 0.0002  # crosses and diamonds
    passed = screenshot(tmp_path, curves_alone(render_page(reports["pass"])), "passed", 1000)[2]
    assert share_of(passed, curve) > 0.0005
    assert share_of(passed, bad) == 0
    assert share_of(passed, gate) > 0.00005  # the step cap
