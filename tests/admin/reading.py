"""What stands on a page, as a person reads it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.http import HttpResponse

VOID = frozenset("meta link input img br hr col".split())


class _Element:
    def __init__(self, tag: str, attributes: dict[str, str | None]) -> None:
        self.tag, self.attributes = tag, attributes
        self.inside: list[_Element | str] = []

    @property
    def text(self) -> str:
        words = "".join(
            f" {each.text} " if isinstance(each, _Element) else each
            for each in self.inside
        )
        return " ".join(words.split())

    def all(self, tag: str) -> list[_Element]:
        found = []
        for each in self.inside:
            if isinstance(each, _Element):
                found += [each] if each.tag == tag else []
                found += each.all(tag)
        return found


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.stack = [_Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = _Element(tag, dict(attrs))
        self.stack[-1].inside.append(element)
        if tag not in VOID:
            self.stack.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.stack[-1].inside.append(_Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if any(each.tag == tag for each in self.stack):
            while self.stack.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.stack[-1].inside.append(data)


class Page:
    """What a response shows."""

    def __init__(self, html: str) -> None:
        tree = _Tree()
        tree.feed(html)
        self.root = tree.stack[0]

    @property
    def text(self) -> str:
        """All words, in order."""
        return self.root.text

    def table(self, caption: str) -> list[list[str]]:
        """Return the words of the rows of the table with this caption, its head first."""
        for table in self.root.all("table"):
            if [each.text for each in table.all("caption")] == [caption]:
                return [
                    [cell.text for cell in row.inside if isinstance(cell, _Element)]
                    for row in table.all("tr")
                ]
        raise AssertionError(f"no table {caption!r} on: {self.text}")

    def facts(self) -> dict[str, str]:
        """Return what the lists of terms say, by term."""
        terms = [each.text for each in self.root.all("dt")]
        return dict(
            zip(terms, [each.text for each in self.root.all("dd")], strict=False)
        )

    def links(self) -> dict[str, str]:
        """Return the addresses of links, by their words."""
        return {
            each.text: each.attributes["href"] or ""
            for each in self.root.all("a")
            if "href" in each.attributes
        }

    def section(self, heading: str) -> str:
        """Return the words of the section that begins with this heading."""
        for section in self.root.all("section"):
            if section.text.startswith(heading):
                return section.text
        raise AssertionError(f"no section {heading!r} on: {self.text}")


def read(response: HttpResponse, status: int = 200) -> Page:
    """Return the page of a response, which must have this status."""
    text = response.content.decode()
    assert response.status_code == status, text[-2000:]
    return Page(text)
