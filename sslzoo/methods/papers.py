"""What cards cite: a method lists addresses, `papers.csv` beside this file has year, title and authors of each."""

import csv
import functools
from pathlib import Path

GEDI = "https://arxiv.org/abs/2401.00873"
MUTUAL_INFORMATION = "https://arxiv.org/abs/2005.13149"
NON_PARAMETRIC = "https://arxiv.org/abs/1805.01978"
SIMVAE = "https://arxiv.org/abs/2402.01399"


@functools.cache
def known() -> dict[str, dict]:
    """Address -> {"url", "year", "title", "authors"}, the authors as BibTeX writes them."""
    with open(Path(__file__).with_name("papers.csv"), encoding="utf-8", newline="") as file:
        return {paper["url"]: paper for paper in csv.DictReader(file)}


def paper(url: str) -> dict[str, str]:
    """{"title", "url"} of a paper; one that the table lacks has its address for a title."""
    return {"title": known().get(url, {}).get("title") or url, "url": url}
