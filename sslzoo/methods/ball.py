"""Ball discrimination (BALL): each view is to be distinguished from the images that look most like it."""

from sslzoo.methods.memory_bank import MemoryBank
from sslzoo.methods.papers import MUTUAL_INFORMATION


class Ball(MemoryBank):
    """Ball discrimination: instance discrimination with hard negatives, the nearest of the bank.

    loss = mean over views of [ -v . M_i / T + log sum over j in B_i of exp v . M_j / T ],  B_i the images nearest to v,
                                                                                         with i itself

    `alignment` pulls a view towards the memory of its image, `contrast` pushes it from its neighbors' (and only
    theirs); the bank and its rules are described in `MemoryBank`. Negatives from a ball make a looser bound on the
    mutual information (VINCE) and a harder task. Early in training hard negatives can mislead: `anneal_steps` begins
    with all images and shrinks the ball as it trains, which is BALL+.

    The ball is exact, that of the view itself (the paper takes the neighbors of M_i; its code does as is done here).

    Args:
        encoder, num_images, projector, views: as in `MemoryBank`.
        neighbors: int >= 1, images in the ball; all images if there are not as many.
        anneal_steps: int >= 0, steps in which the ball shrinks from all images to that; 0 for BALL.
        curve: "linear", "exponential" or "step", how it shrinks. The paper does not say.

    Reference:
        Wu et al., "On Mutual Information in Contrastive Learning for Visual Representations", lemma 5.1 and section 5.
    """

    papers = (MUTUAL_INFORMATION,)
    without = ("negatives", "clusters", "clusterings", "inner")

    def __init__(self, encoder, num_images, projector=None, views=None, neighbors=4096, **kwargs):
        super().__init__(encoder, num_images, projector, views, neighbors=neighbors, **kwargs)
