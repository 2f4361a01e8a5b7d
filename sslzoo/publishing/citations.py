"""BibTeX for a model's papers, and for sslzoo itself."""

import re

from sslzoo.methods import papers

SSLZOO = """\
@software{sslzoo,
  title = {sslzoo: self-supervised encoders in Keras 3},
  author = {{The sslzoo authors}}
}"""


def bibtex(paper: dict) -> str:
    """The BibTeX entry of a paper.

    Args:
        paper: dict with `title` and, optionally, `url`; of an arXiv address year and number are taken.
    """
    url = paper.get("url", "")
    number = re.search(r"arxiv\.org/abs/((\d\d)\d\d\.\d{4,5})", url)
    known = papers.known().get(url, {})
    author, year = known.get("authors"), f"20{number[2]}" if number else known.get("year", "")
    word = re.sub(r"[^a-z0-9]", "", re.split(r"[\s:-]", paper["title"].lower())[0])
    name = re.sub(r"[^a-z]", "", author.partition(",")[0].lower()) if author else ""
    fields = {"title": f"{{{paper['title']}}}", "author": author, "year": year}
    fields |= {"eprint": number[1], "archivePrefix": "arXiv"} if number else {}
    fields["url"] = url
    lines = [f"  {key} = {{{value}}}" for key, value in fields.items() if value]
    return f"@misc{{{name}{year}{word},\n" + ",\n".join(lines) + "\n}"
