"""Reads a page as a person does: its tables, its words, its elements."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "line", "hr"}


class Reader(HTMLParser):
    """Tables by caption, visible text, and the elements of a page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.tables, self.text, self.scripts, self.parts = [], [], {}, [], [], {}
        self.section = ""
        self.feed(text)
        assert self.open == [], "an element is not closed"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "section":
            self.section = dict(attributes)["aria-labelledby"]
        elif tag == "table":
            self.rows, self.caption = [], ""
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open.pop() == tag, tag
        if tag == "section":
            self.section = ""
        elif tag == "table":
            self.tables[self.caption] = self.rows

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
            return
        if "style" in self.open:
            return
        self.parts.setdefault(self.section, []).append(data.strip())
        if "caption" in self.open:
            self.caption += data
        elif "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        else:
            self.text.append(data.strip())

    def count(self, tag):
        return sum(t == tag for t, _ in self.elements)

    def table(self, start):
        (found,) = [rows for caption, rows in self.tables.items() if caption.startswith(start)]
        return found

    def part(self, name):
        """Everything that a section says, its tables too."""
        return " ".join(t for t in self.parts[name] if t)

    @property
    def words(self):
        return " ".join(t for t in self.text if t)
