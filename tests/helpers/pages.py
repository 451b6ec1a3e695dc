"""A page as a tree, for tests that look at what it says."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "wbr", "hr", "img", "input"}


class Node:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent, self.children = tag, attributes, parent, []

    def all(self, *tags):
        """This and every node below with one of these tags, in order."""
        found = [self] if not tags or self.tag in tags else []
        for child in self.children:
            if isinstance(child, Node):
                found += child.all(*tags)
        return found

    def words(self):
        parts = [child if isinstance(child, str) else child.words() for child in self.children]
        return " ".join(" ".join(parts).split())


class Tree(HTMLParser):
    """The page as a tree; a tag that is not closed where it should be is an error."""

    def __init__(self, page):
        super().__init__()
        self.root = self.here = Node("document", {}, None)
        self.feed(page)
        self.close()
        assert self.here is self.root

    def handle_starttag(self, tag, attrs):
        node = Node(tag, dict(attrs), self.here)
        assert len(node.attributes) == len(attrs), "an attribute stands twice"
        self.here.children.append(node)
        if tag not in VOID:
            self.here = node

    def handle_startendtag(self, tag, attrs):
        self.here.children.append(Node(tag, dict(attrs), self.here))

    def handle_endtag(self, tag):
        assert self.here.tag == tag
        self.here = self.here.parent

    def handle_data(self, data):
        self.here.children.append(data)
