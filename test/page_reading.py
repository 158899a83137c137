"""Reads an HTML page as a browser would have to: well formed, and what it would load."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

_VOID = {"meta", "img"}


@dataclass
class Node:
    """One element: its tag, attributes, what it holds, and the text directly in it."""

    tag: str
    attributes: dict[str, str | None]
    children: list["Node"] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str) -> list["Node"]:
        """Every element of this tag below, in order."""
        own = [self] if self.tag == tag else []
        return own + [found for child in self.children for found in child.all(tag)]

    def words(self) -> str:
        """All text below, spaces made single."""
        return " ".join(" ".join([self.text, *(child.words() for child in self.children)]).split())

    def of_class(self, name: str) -> list["Node"]:
        """Every element with this class below."""
        own = [self] if name in (self.attributes.get("class") or "").split() else []
        return own + [found for child in self.children for found in child.of_class(name)]


class Page(HTMLParser):
    """Parses strictly: every element is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self._open = [self.root]
        self.feed(text)
        self.close()
        assert self._open == [self.root], f"not closed: {[n.tag for n in self._open[1:]]}"

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"{tag} has an attribute twice: {names}"
        node = Node(tag, dict(attrs))
        self._open[-1].children.append(node)
        if tag not in _VOID:
            self._open.append(node)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        assert self._open[-1].tag == tag, f"</{tag}> where <{self._open[-1].tag}> is open"
        self._open.pop()

    def handle_data(self, data):
        self._open[-1].text += data


def read_page(path: Path) -> Node:
    """The page, once it is certain that it loads nothing and runs nothing."""
    root = Page(path.read_text(encoding="utf-8")).root
    ids = [node.attributes["id"] for node in _everything(root) if "id" in node.attributes]
    assert len(set(ids)) == len(ids)
    for node in _everything(root):
        assert node.tag not in ("script", "iframe", "object", "embed", "link", "base", "form"), node.tag
        for name, value in node.attributes.items():
            assert not name.startswith("on"), name
            if name == "src":
                assert value is not None
                assert value.startswith("data:image/jpeg;base64,")
            if name in ("href", "xlink:href"):
                assert value is not None
                assert value.startswith("#")
                assert value[1:] in ids
    style = root.all("style")[0].text
    assert "url(" not in style
    assert "@import" not in style
    return root


def _everything(node: Node) -> list[Node]:
    return [found for child in node.children for found in (child, *_everything(child))]
