"""Links between the project's pages lead somewhere, headings included, and every page can be reached."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, code_in, prose_of

pytestmark = pytest.mark.req("G1")

PROJECT_PAGES = [*PAGES, "CHANGELOG.md", "CONTRIBUTING.md"]
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def links_of(page: str) -> list[str]:
    found: list[str] = _LINK.findall(prose_of((ROOT / page).read_text(encoding="utf-8")))
    return [link for link in found if "://" not in link]


def target_of(page: str, link: str) -> Path:
    path = link.partition("#")[0]
    return ((ROOT / page).parent / path).resolve() if path else ROOT / page


def anchors_of(page: Path) -> set[str]:
    """Headings as the usual renderers name them."""
    headings: list[str] = re.findall(r"^#+ (.+)$", prose_of(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PROJECT_PAGES)
def test_every_link_leads_to_a_file_and_heading_that_are_there(page: str) -> None:
    for link in links_of(page):
        target = target_of(page, link)
        assert target.exists(), f"{page} links to {link}"
        assert target.is_relative_to(ROOT), f"{page} links out of the repository: {link}"
        anchor = link.partition("#")[2]
        assert not anchor or anchor in anchors_of(target), f"{page} links to {link}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        name = str(page.relative_to(ROOT))
        waiting += [target_of(name, link) for link in links_of(name)]
    decisions = set((ROOT / "docs/decisions").iterdir())  # they are found by their folder
    assert {ROOT / page for page in PROJECT_PAGES} - decisions <= reached


@pytest.mark.parametrize("page", [page for page in PROJECT_PAGES if page != "docs/status.md"])
def test_files_that_are_named_are_there(page: str) -> None:
    for code in code_in(prose_of((ROOT / page).read_text(encoding="utf-8"))):
        if re.fullmatch(r"(src|tests|docs)/[\w./-]+", code) and "..." not in code:
            assert (ROOT / code).exists(), f"{page} names {code}"


def test_the_readme_fits_a_small_screen() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not any(line.startswith("|") for line in text.splitlines()), "no tables in the README"
    assert len(text.splitlines()) < 200
