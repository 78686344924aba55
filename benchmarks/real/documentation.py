"""``python -m benchmarks.real.documentation PAGES FOLDER``: a task of use from the HTML pages of a documentation.

PAGES is for example ``/usr/share/doc/python3.11/html``, ``/usr/share/doc/python-django-doc/html`` or
``/usr/share/doc/postgresql-doc-15/html``, of Debian's packages python3.11-doc, python-django-doc and postgresql-doc-15
(for evaluation only). The items are all pages. A section is a request: its heading and first words ask for the pages
that it links to. Requests are in an order drawn with seed 0, and the last fifth are tests. Most pages are never used.

Pages that fewer than 3, or more than a tenth, of the sections link to are not used. Release notes and indexes, which
link to everything, are left out. Then: ``python -m benchmarks.real.use DIRECTORY_OF_FOLDER --tasks NAME_OF_FOLDER``.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from benchmarks.real.packages import Asked, write_files

LEFT_OUT = ("genindex", "bookindex", "search", "whatsnew", "release", "_modules", "py-modindex")
SKIPPED = ("script", "style", "head", "nav")
AROUND = {"navigation", "nav", "related", "sphinxsidebar", "navheader", "navfooter", "footer", "hd", "ft", "global-nav"}
HEADINGS = ("h1", "h2", "h3", "h4", "h5")
MOST_SHARE, FEWEST, MOST_USED = 0.1, 3, 10
SHORTEST, BEGINNING, PAGE = 80, 150, 700  # characters of a section, of its part in a request, and of a page
TESTS = 0.2


@dataclass
class Section:
    """A heading, the text below it, and the pages that it links to, as written."""

    heading: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)


class Sections(HTMLParser):
    """Reads the sections of a page; what comes before the first heading is left out."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.sections: list[Section] = []
        self._skipped, self._in_heading = 0, False
        self._divisions: list[bool] = []  # whether each open one is of the navigation
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "div":
            named = {word for _, value in attrs for word in (value or "").split()}
            self._divisions.append(bool(named & AROUND))
            self._skipped += self._divisions[-1]
        elif tag in SKIPPED:
            self._skipped += 1
        elif self._skipped:
            return
        elif tag in HEADINGS:
            self.sections.append(Section())
            self._in_heading = True
        elif tag == "a" and self.sections and not self._in_heading:
            self.sections[-1].links.append(dict(attrs).get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "div":
            self._skipped -= self._divisions.pop() if self._divisions else False
        elif tag in SKIPPED:
            self._skipped -= 1
        elif tag in HEADINGS:
            self._in_heading = False

    def handle_data(self, data: str) -> None:
        if self.sections and not self._skipped:
            last = self.sections[-1]
            (last.heading if self._in_heading else last.text).append(data)


def plain(parts: list[str]) -> str:
    return " ".join(" ".join(parts).replace("¶", " ").split())


def read(root: Path) -> tuple[dict[str, str], Asked]:
    """Returns the text of each page by its path, and the requests with the pages that each used."""
    pages: dict[str, str] = {}
    requests: Asked = []
    for file in sorted(root.rglob("*.html")):
        path = file.relative_to(root).as_posix()
        if any(word in path for word in LEFT_OUT):
            continue
        sections = Sections(file.read_text("utf-8", "replace")).sections
        if not sections:
            continue
        pages[path] = " ".join(f"{plain(one.heading)}. {plain(one.text)}" for one in sections)[:PAGE]
        for section in sections:
            linked = {_page(file, link, root) for link in section.links}
            used = sorted(one for one in linked if one is not None and one != path)
            text = plain(section.text)
            if 1 <= len(used) <= MOST_USED and len(text) > SHORTEST:
                requests.append((f"{plain(section.heading)}. {text[:BEGINNING]}", used))
    return pages, requests


def _page(file: Path, link: str, root: Path) -> str | None:
    """Returns the path of the page that a link leads to; None if it leads elsewhere."""
    name = link.split("#")[0]
    if not name.endswith(".html") or ":" in name:
        return None
    target = (file.parent / name).resolve()
    return target.relative_to(root.resolve()).as_posix() if target.is_relative_to(root.resolve()) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, help="folder of HTML pages")
    parser.add_argument("folder", type=Path, help="where to write the task; its name is that of the task")
    arguments = parser.parse_args()
    pages, requests = read(arguments.pages)
    times = Counter(page for _, used in requests for page in used)
    most = MOST_SHARE * len(requests)
    left = [(text, [one for one in used if one in pages and FEWEST <= times[one] <= most]) for text, used in requests]
    left = [one for one in left if one[1]]
    tests = round(TESTS * len(left))
    if not tests:
        raise SystemExit(f"{arguments.pages} has {len(left)} sections with links. Expected a documentation in HTML.")
    write_files(arguments.folder, pages, left, tests)


if __name__ == "__main__":
    main()
