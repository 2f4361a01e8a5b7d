"""Writes docs/methods.md, every method of the zoo in one table, from what the classes in sslzoo.methods say.

python docs/write_methods.py            # write
python docs/write_methods.py --check    # exit with 1 if it is not what would be written
"""

import argparse
import inspect
import sys
from pathlib import Path

from sslzoo.methods import METHODS
from sslzoo.methods.papers import paper
from sslzoo.methods.pretrainer import ROLES

PAGE = Path(__file__).resolve().parent / "methods.md"
HEAD = """# Methods

Written by `python docs/write_methods.py` from the classes in `sslzoo.methods`; do not edit.

Each method fits the same model ([SimVAE](https://arxiv.org/abs/2402.01399), eq. 3-5): the views x of one image have
latents z around one center that nobody knows. Its evidence lower bound is a sum of three parts,

    log p(views) >= E_q [ log p(x | z) ]  +  H[ q(z | x) ]
                    reconstruction           entropy

                    +  E_q [ log p(z, of all views | one center) ]
                       prior

A *prior* alone would put all images on one point. What keeps them apart is the *reconstruction*, or what a method has
in its place: negatives, spread, a volume, or the shape that all latents together must have (the *marginal*). Losses are
reported as named terms; the table says what each stands for.

"""
FOOT = """
**Pulls**: terms that bring the views of an image together. **Pushes**: terms that keep images apart; in brackets what
does where no term does. **Views**: how many of an image a method takes. **Remembers**: between steps, beside weights
and optimizer. Projection heads, optimizers and budgets are the recipe's.
"""


def views_in_words(counts):
    least, most = counts
    if most is None:
        return f"{least} or more"
    return str(least) if least == most else f"{least} to {most}"


def with_role(method, *roles):
    """Terms whose role is one of `roles`."""
    return [term for term, role in method.terms.items() if set(role.split(", ")) & set(roles)]


def row(name, method):
    pulls = with_role(method, "prior")
    pushes = with_role(method, "reconstruction", "substitute", "density")
    holds = with_role(method, "marginal", "entropy")
    apart = ", ".join(f"`{term}`" for term in pushes) or "–"
    if method.apart_by:
        apart += f" ({method.apart_by})"
    elif not pushes and holds:
        apart += " (the marginal does)"
    parts = ", ".join(f"`{term}`: {role}" for term, role in method.terms.items())
    cited = paper(method.papers[0])
    told = inspect.getdoc(method).partition("\n")[0]
    return [
        f"[`{method.__name__}`](../{Path(inspect.getsourcefile(method)).relative_to(PAGE.parent.parent).as_posix()})",
        told,
        ", ".join(f"`{term}`" for term in pulls) or "–",
        apart,
        parts,
        views_in_words(method.view_counts),
        ", ".join(method.remembers) or "–",
        f"[{cited['title']}]({cited['url']})",
    ]


def cell(text):
    return text.replace("|", chr(92) + "|")


def page():
    """The text of docs/methods.md."""
    roles = [f"| {role} | {cell(meaning)} |" for role, meaning in ROLES.items()]
    header = ("method", "in a sentence", "pulls", "pushes", "stands for", "views", "remembers", "paper")
    table = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    table += [f"| {' | '.join(map(cell, row(*item)))} |" for item in METHODS.items()]
    return HEAD + "\n".join(["| role | of a term |", "|---|---|", *roles, "", *table, ""]) + FOOT


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if it is out of date")
    options = parser.parse_args(argv)
    text = page()
    if PAGE.exists() and PAGE.read_text("utf-8") == text:
        return 0
    if options.check:
        print("docs/methods.md is out of date: python docs/write_methods.py")
        return 1
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
