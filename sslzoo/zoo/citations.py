"""BibTeX for a model's papers, and for sslzoo itself."""

import re

# Who wrote the papers that cards cite, by the address they are cited with. Papers that are not here are cited without
# authors rather than with guessed ones.
_AUTHORS = {
    "https://arxiv.org/abs/1312.6114": "Kingma, Diederik P. and Welling, Max",
    "https://arxiv.org/abs/1406.6909": "Dosovitskiy, Alexey and Fischer, Philipp and Springenberg, Jost Tobias and "
    "Riedmiller, Martin and Brox, Thomas",
    "https://arxiv.org/abs/1805.01978": "Wu, Zhirong and Xiong, Yuanjun and Yu, Stella X. and Lin, Dahua",
    "https://arxiv.org/abs/1807.05520": "Caron, Mathilde and Bojanowski, Piotr and Joulin, Armand and Douze, Matthijs",
    "https://arxiv.org/abs/1911.05722": "He, Kaiming and Fan, Haoqi and Wu, Yuxin and Xie, Saining and Girshick, Ross",
    "https://arxiv.org/abs/2002.05709": "Chen, Ting and Kornblith, Simon and Norouzi, Mohammad and Hinton, Geoffrey",
    "https://arxiv.org/abs/2006.07733": "Grill, Jean-Bastien and others",
    "https://arxiv.org/abs/2006.09882": "Caron, Mathilde and Misra, Ishan and Mairal, Julien and Goyal, Priya and "
    "Bojanowski, Piotr and Joulin, Armand",
    "https://arxiv.org/abs/2007.06346": "Ermolov, Aleksandr and Siarohin, Aliaksandr and Sangineto, Enver and "
    "Sebe, Nicu",
    "https://arxiv.org/abs/2011.10566": "Chen, Xinlei and He, Kaiming",
    "https://arxiv.org/abs/2103.03230": "Zbontar, Jure and Jing, Li and Misra, Ishan and LeCun, Yann and "
    "Deny, St{\\'e}phane",
    "https://arxiv.org/abs/2105.04906": "Bardes, Adrien and Ponce, Jean and LeCun, Yann",
    "https://arxiv.org/abs/2105.14859": "Sinha, Samarth and Dieng, Adji B.",
    "https://arxiv.org/abs/2107.02495": "Aitchison, Laurence and Ganev, Stoil",
    "https://arxiv.org/abs/2209.07999": "Ozsoy, Serdar and Hamdan, Shadi and Arik, Sercan O. and Yuret, Deniz and "
    "Erdogan, Alper T.",
    "https://arxiv.org/abs/2212.13425": "Sansone, Emanuele and Manhaeve, Robin",
    "https://arxiv.org/abs/2402.01399": 'Bizeul, Alice and Sch{\\"o}lkopf, Bernhard and Allen, Carl',
    "https://arxiv.org/abs/2511.08544": "Balestriero, Randall and LeCun, Yann",
    "https://doi.org/10.1007/978-3-031-16788-1_4": "Pototzky, Daniel and Sultan, Azhar and Schmidt-Thieme, Lars",
    "https://openreview.net/forum?id=Sy2fzU9gl": "Higgins, Irina and Matthey, Loic and Pal, Arka and Burgess, "
    "Christopher and Glorot, Xavier and Botvinick, Matthew and Mohamed, Shakir and Lerchner, Alexander",
}
_YEARS = {"https://openreview.net/forum?id=Sy2fzU9gl": "2017", "https://doi.org/10.1007/978-3-031-16788-1_4": "2022"}

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
    author = _AUTHORS.get(url)
    year = f"20{number[2]}" if number else _YEARS.get(url, "")
    word = re.sub(r"[^a-z0-9]", "", re.split(r"[\s:-]", paper["title"].lower())[0])
    name = re.sub(r"[^a-z]", "", author.partition(",")[0].lower()) if author else ""
    fields = {"title": f"{{{paper['title']}}}", "author": author, "year": year}
    fields |= {"eprint": number[1], "archivePrefix": "arXiv"} if number else {}
    fields["url"] = url
    lines = [f"  {key} = {{{value}}}" for key, value in fields.items() if value]
    return f"@misc{{{name}{year}{word},\n" + ",\n".join(lines) + "\n}"
