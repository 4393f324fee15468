"""Reads pages: which elements there are, and what their forms would send."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple


class Element(NamedTuple):
    """A start tag."""

    tag: str
    attributes: dict[str, str]


class Form(NamedTuple):
    """A form: where it is sent, how, and what it sends if it is left as it is."""

    action: str
    method: str
    fields: dict[str, list[str]]


class Markup(HTMLParser):
    """The elements, the forms and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.forms: list[Form] = []
        self.texts: list[str] = []
        self.duplicate_attributes: list[str] = []
        self._by_id: dict[str, Form] = {}
        self._open: Form | None = None
        self._area: str | None = None
        self._select: str | None = None
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        """What can be read, scripts included."""
        return "".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element, and what of it a form sends."""
        attributes = {name: value or "" for name, value in attrs}
        if len(attributes) < len(attrs):
            self.duplicate_attributes.append(self.get_starttag_text() or tag)
        self.elements.append(Element(tag, attributes))
        if tag == "form":
            method = attributes.get("method", "get").lower()
            self._open = Form(attributes.get("action", ""), method, {})
            self.forms.append(self._open)
            if "id" in attributes:
                self._by_id[attributes["id"]] = self._open
        form = self._by_id.get(attributes.get("form", "")) or self._open
        name = attributes.get("name")
        if tag == "option" and self._select and form is not None:
            chosen = form.fields.setdefault(self._select, [])
            value = attributes.get("value", "")
            if "selected" in attributes:
                form.fields[self._select] = [value]
            elif not chosen:
                chosen.append(value)
        if form is None or not name or "disabled" in attributes:
            return
        kind = attributes.get("type", "text")
        if tag == "input" and kind not in ("submit", "button", "file"):
            if kind not in ("checkbox", "radio") or "checked" in attributes:
                value = attributes.get("value", "on" if kind == "checkbox" else "")
                form.fields.setdefault(name, []).append(value)
        elif tag == "textarea":
            form.fields[name] = [""]
            self._area = name
        elif tag == "select":
            self._select = name

    def handle_endtag(self, tag: str) -> None:
        """Close forms and fields."""
        if tag == "form":
            self._open = None
        elif tag == "textarea":
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        """Keep a text, also as what a field holds."""
        self.texts.append(data)
        if self._area is not None and self._open is not None:
            self._open.fields[self._area][0] += data.removeprefix("\n")
