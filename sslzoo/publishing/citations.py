"""BibTeX for a model's papers, and for sslzoo itself."""

import re

# Who wrote the papers that cards cite, by the address they are cited with.
_AUTHORS = {
    "https://arxiv.org/abs/1312.6114": "Kingma, Diederik P. and Welling, Max",
    "https://arxiv.org/abs/1406.6909": (
        "Dosovitskiy, Alexey and Fischer, Philipp and Springenberg, Jost Tobias and Riedmiller, Martin and Brox, Thomas"
    ),
    "https://arxiv.org/abs/1805.01978": "Wu, Zhirong and Xiong, Yuanjun and Yu, Stella X. and Lin, Dahua",
    "https://arxiv.org/abs/1807.05520": (
        "Caron, Mathilde and Bojanowski, Piotr and Joulin, Armand and Douze, Matthijs"
    ),
    "https://arxiv.org/abs/1903.12355": "Zhuang, Chengxu and Zhai, Alex Lin and Yamins, Daniel",
    "https://arxiv.org/abs/1906.05849": "Tian, Yonglong and Krishnan, Dilip and Isola, Phillip",
    "https://arxiv.org/abs/1911.05722": (
        "He, Kaiming and Fan, Haoqi and Wu, Yuxin and Xie, Saining and Girshick, Ross"
    ),
    "https://arxiv.org/abs/1912.03263": (
        'Grathwohl, Will and Wang, Kuan-Chieh and Jacobsen, J{\\"o}rn-Henrik and Duvenaud, David and '
        "Norouzi, Mohammad and Swersky, Kevin"
    ),
    "https://arxiv.org/abs/2002.05709": "Chen, Ting and Kornblith, Simon and Norouzi, Mohammad and Hinton, Geoffrey",
    "https://arxiv.org/abs/2005.10242": "Wang, Tongzhou and Isola, Phillip",
    "https://arxiv.org/abs/2005.13149": (
        "Wu, Mike and Zhuang, Chengxu and Mosse, Milan and Yamins, Daniel and Goodman, Noah"
    ),
    "https://arxiv.org/abs/2006.07733": (
        "Grill, Jean-Bastien and Strub, Florian and Altch{\\'e}, Florent and Tallec, Corentin and "
        "Richemond, Pierre H. and Buchatskaya, Elena and Doersch, Carl and Avila Pires, Bernardo and "
        "Guo, Zhaohan Daniel and Gheshlaghi Azar, Mohammad and Piot, Bilal and Kavukcuoglu, Koray and "
        "Munos, R{\\'e}mi and Valko, Michal"
    ),
    "https://arxiv.org/abs/2006.09882": (
        "Caron, Mathilde and Misra, Ishan and Mairal, Julien and Goyal, Priya and Bojanowski, Piotr and Joulin, Armand"
    ),
    "https://arxiv.org/abs/2007.06346": (
        "Ermolov, Aleksandr and Siarohin, Aliaksandr and Sangineto, Enver and Sebe, Nicu"
    ),
    "https://arxiv.org/abs/2011.10566": "Chen, Xinlei and He, Kaiming",
    "https://arxiv.org/abs/2103.03230": (
        "Zbontar, Jure and Jing, Li and Misra, Ishan and LeCun, Yann and Deny, St{\\'e}phane"
    ),
    "https://arxiv.org/abs/2104.14294": (
        "Caron, Mathilde and Touvron, Hugo and Misra, Ishan and J{\\'e}gou, Herv{\\'e} and "
        "Mairal, Julien and Bojanowski, Piotr and Joulin, Armand"
    ),
    "https://arxiv.org/abs/2104.14548": (
        "Dwibedi, Debidatta and Aytar, Yusuf and Tompson, Jonathan and Sermanet, Pierre and Zisserman, Andrew"
    ),
    "https://arxiv.org/abs/2105.04906": "Bardes, Adrien and Ponce, Jean and LeCun, Yann",
    "https://arxiv.org/abs/2105.14859": "Sinha, Samarth and Dieng, Adji B.",
    "https://arxiv.org/abs/2107.02495": "Aitchison, Laurence and Ganev, Stoil",
    "https://arxiv.org/abs/2110.06848": (
        "Yeh, Chun-Hsiao and Hong, Cheng-Yao and Hsu, Yen-Chi and Liu, Tyng-Luh and Chen, Yubei and LeCun, Yann"
    ),
    "https://arxiv.org/abs/2202.04933": "Kim, Beomsu and Ye, Jong Chul",
    "https://arxiv.org/abs/2206.10698": (
        "Zhu, Jiachen and Moraes, Rafael M. and Karakulak, Serkan and Sobol, Vlad and Canziani, Alfredo and LeCun, Yann"
    ),
    "https://arxiv.org/abs/2209.07999": (
        "Ozsoy, Serdar and Hamdan, Shadi and Arik, Sercan O. and Yuret, Deniz and Erdogan, Alper T."
    ),
    "https://arxiv.org/abs/2212.13425": "Sansone, Emanuele and Manhaeve, Robin",
    "https://arxiv.org/abs/2303.03307": "Yerxa, Thomas and Kuang, Yilun and Simoncelli, Eero and Chung, SueYeon",
    "https://arxiv.org/abs/2304.03977": "Tong, Shengbang and Chen, Yubei and Ma, Yi and LeCun, Yann",
    "https://arxiv.org/abs/2310.02903": (
        "Skean, Oscar and Dhakal, Aayush and Jacobs, Nathan and Giraldo, Luis Gonzalo Sanchez"
    ),
    "https://arxiv.org/abs/2402.01399": 'Bizeul, Alice and Sch{\\"o}lkopf, Bernhard and Allen, Carl',
    "https://arxiv.org/abs/2502.10385": (
        "Wu, Ziyang and Zhang, Jingyuan and Pai, Druv and Wang, XuDong and Singh, Chandan and "
        "Yang, Jianwei and Gao, Jianfeng and Ma, Yi"
    ),
    "https://arxiv.org/abs/2511.08544": "Balestriero, Randall and LeCun, Yann",
    "https://arxiv.org/abs/2606.02572": "Wu, Haiyu and Balestriero, Randall and Levine, Morgan",
    "https://doi.org/10.1007/978-3-031-16788-1_4": "Pototzky, Daniel and Sultan, Azhar and Schmidt-Thieme, Lars",
    "https://openreview.net/forum?id=8la28hZOwug": "Lee, Kyungmin",
    "https://openreview.net/forum?id=Sy2fzU9gl": (
        "Higgins, Irina and Matthey, Loic and Pal, Arka and Burgess, Christopher and Glorot, Xavier and "
        "Botvinick, Matthew and Mohamed, Shakir and Lerchner, Alexander"
    ),
}
_YEARS = {
    "https://openreview.net/forum?id=8la28hZOwug": "2022",
    "https://openreview.net/forum?id=Sy2fzU9gl": "2017",
    "https://doi.org/10.1007/978-3-031-16788-1_4": "2022",
}

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
