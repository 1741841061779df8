"""A page as a mail reader sees it: no script, nothing fetched, each tag closed."""
import html.parser
import re

VOID = {"meta", "img", "br", "input", "link"}
INLINE = re.compile(r"url\(|@import|expression\(|https?:|//", re.I)


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.faults, self.images = [], [], []
        self.tags, self.words = [], []
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append((tag, values))
        for name, value in attributes:
            if name.startswith("on") or name in ("href", "xlink:href", "srcset", "action", "data", "poster"):
                self.faults.append(f"<{tag} {name}>")
            if name == "src" and not value.startswith("data:image/png;base64,"):
                self.faults.append(f"src={value[:60]}")
            if name == "style":
                self.faults.append(f"<{tag}> has a style")
        if tag == "img":
            self.images.append(values["src"])
            if not values.get("alt"):
                self.faults.append("a picture without words")
        if tag == "th" and "scope" not in values:
            self.faults.append("a head of a table without scope")
        if tag in ("iframe", "object", "embed", "base", "form", "link"):
            self.faults.append(f"<{tag}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> ends {self.open[-3:]}")
        else:
            self.open.pop()

    def handle_data(self, data):
        tag = self.open[-1] if self.open else ""
        if tag not in ("style", "script"):
            self.words.append(data)
        if tag == "style" and INLINE.search(data):
            self.faults.append(f"style asks for {INLINE.search(data)}")

    @property
    def text(self):
        """What is read, without style and script."""
        return " ".join("".join(self.words).split())

    def count(self, tag, kind=None):
        return sum(1 for name, values in self.tags if name == tag and (kind is None or kind in values.get("class", "").split()))
