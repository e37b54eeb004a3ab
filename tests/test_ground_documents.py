"""Documents point at things that exist, and decisions have their five parts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/**/*.md")])
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
PARTS = ["Problem", "Evidence", "Decision", "Consequence", "Guarded by"]
OURS = r"`((?:tests|src|examples|benchmarks|docs)/[\w./-]*|(?:core|store|engines)/[\w./-]+)`"


def dead_links(page: Path) -> list[str]:
    """Relative links of a page whose target is missing."""
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    return [link for link in local if not (page.parent / link).exists()]


def dead_paths(page: Path) -> list[str]:
    """Paths in backquotes, seen from the repository or from the package, that do not exist."""
    named = re.findall(OURS, page.read_text(encoding="utf-8"))
    homes = (ROOT, ROOT / "src" / "seatrial")
    return [path for path in named if not any((home / path).exists() for home in homes)]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_and_paths_exist(page: Path) -> None:
    assert dead_links(page) == []
    assert dead_paths(page) == []


@pytest.mark.parametrize("page", DECISIONS, ids=[page.stem for page in DECISIONS])
def test_a_decision_has_its_parts_and_is_listed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == PARTS
    assert "`tests/" in text.split("## Guarded by")[1]
    assert text.startswith(f"# {page.name[:4]} ")
    assert f"({page.name})" in (page.parent / "README.md").read_text(encoding="utf-8")


def test_a_dead_link_and_a_dead_path_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](missing.md) [b](page.md) [c](https://example.org/x) `tests/no_such.py`")
    assert dead_links(page) == ["missing.md"]
    assert dead_paths(page) == ["tests/no_such.py"]


def test_make_knows_every_command_that_the_documents_name() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"(?:`|^ {4})make ([a-z-]+)", text, re.MULTILINE))
    assert {"trial", "test"} <= named
    for target in sorted(named):
        asked = subprocess.run(
            ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert asked.returncode == 0, f"make {target}: {asked.stderr}"
