"""What cards cite: a paper is {"title": str, "url": str}; those that several methods cite have a name here."""


def paper(title: str, url: str) -> dict[str, str]:
    """A paper as `Pretrainer.papers` lists it."""
    return {"title": title, "url": url}


GEDI = paper("Unifying Self-Supervised Clustering and Energy-Based Models", "https://arxiv.org/abs/2212.13425")
MUTUAL_INFORMATION = paper(
    "On Mutual Information in Contrastive Learning for Visual Representations", "https://arxiv.org/abs/2005.13149"
)
NON_PARAMETRIC = paper(
    "Unsupervised Feature Learning via Non-Parametric Instance Discrimination", "https://arxiv.org/abs/1805.01978"
)
SIMVAE = paper("A Probabilistic Model behind Self-Supervised Learning", "https://arxiv.org/abs/2402.01399")
