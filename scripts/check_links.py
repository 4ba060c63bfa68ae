"""`python scripts/check_links.py FOLDER`: whether the links and images of built HTML pages lead to files and anchors.

Links to other sites are not looked at; `make links` does that.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the addresses and the names of a tag."""
        for name, value in attrs:
            if value and (name in ("href", "src") and tag in ("a", "img", "link", "script")):
                self.links.append(value)
            elif value and name in ("id", "name"):
                self.anchors.add(value)


def broken(folder: Path) -> list[str]:
    """Each broken link as a line: the page, and where the link leads."""
    pages = {}
    for path in folder.rglob("*.html"):
        pages[path.resolve()] = page = Page()
        page.feed(path.read_text(encoding="utf-8"))
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            missing = not target.exists()
            if not missing and parts.fragment and target in pages:
                missing = unquote(parts.fragment) not in pages[target].anchors
            if missing:
                found.append(f"{path.relative_to(folder.resolve())}: {link}")
    return sorted(set(found))


if __name__ == "__main__":
    lines = broken(Path(sys.argv[1]))
    print("\n".join(lines) or "all links inside lead somewhere")
    sys.exit(bool(lines))
