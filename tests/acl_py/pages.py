"""Reading pages (acl_py.trace.page): their elements, and the tables in their data."""

import json
from base64 import b64decode
from html.parser import HTMLParser


class Parts(HTMLParser):
    """The elements of a page, each with its attributes and its text."""

    def __init__(self, html):
        super().__init__()
        self.elements = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))

    def handle_data(self, data):
        if self.elements:
            self.elements[-1][2].append(data)

    def text(self, tag, **attrs):
        (text,) = ["".join(texts) for name, has, texts in self.elements if name == tag and attrs.items() <= has.items()]
        return text


def data_of(html):
    """The data of a page."""
    return json.loads(Parts(html).text("script", id="data"))


def unpacked(text):
    """The numbers of a column; page.js does the same."""
    numbers, step, shift, value = [], 0, 0, 0
    for byte in b64decode(text):
        step |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            value += -(step >> 1) - 1 if step & 1 else step >> 1
            numbers.append(value)
            step = shift = 0
    return numbers


def rows_of(run, name, *columns):
    """The rows of a table: texts where a column is named as "text:name", else numbers."""
    table = run[name]
    lists = []
    for column in columns:
        kind, _, of_text = column.partition(":")
        numbers = unpacked(table[of_text or kind])
        assert len(numbers) == table["rows"]
        lists.append([run["texts"][number] for number in numbers] if of_text else numbers)
    return list(zip(*lists, strict=True))
