"""`sslzoo doctor`: the health of an encoder, without labels."""

import sslzoo
from sslzoo import zoo
from sslzoo.cli import shared
from sslzoo.cli.command import Answer, argument, check_page, command, say
from sslzoo.errors import InvalidInputError
from sslzoo.files import write_beside

ORDERS = ("effective_rank", "centered_rank", "spread", "mean_cosine", "uniformity", "alpha_req", "alignment")
ORDERS += ("separation", "lidar")  # of `sslzoo.downstream.diagnosis`, which imports Keras


@command(
    argument("encoder", metavar="ENCODER", help="a name, model folder, hf:// address, .onnx, or .npz of features"),
    argument("images", nargs="*", metavar="IMAGES", help="a data set's name, folders, files or one .npz"),
    argument("--policy", metavar="P", help="policy of the views (that of training, or one for the size of the images)"),
    argument("--num-views", type="positive integer", metavar="N", help="views of each of a quarter of the images (8)"),
    argument("--compare", nargs="+", action="extend", default=[], metavar="E", help="other encoders to rank it with"),
    argument("--by", choices=ORDERS, metavar="M", help=f"measure to rank by: {', '.join(ORDERS)} (lidar)"),
    argument("--html", type="path", metavar="FILE", help="also write a page with nearest neighbors"),
    argument("--force", action="store_true", help="overwrite that page"),
    argument("--split", help="split of a folder, .npz or data set that has several (train of a data set)"),
    shared.DATA_DIR,
    shared.IMAGE_SIZE,
    shared.SCALE,
    argument(
        "--limit",
        dest="most",
        type="positive integer",
        default=2000,
        metavar="N",
        help="most images, drawn at random (2000)",
    ),
    shared.BACKGROUND,
    shared.ON_ERROR,
    shared.batch_size(256),
    shared.SEED,
)
def doctor(encoder, images, policy, compare, by, html, force, **options):
    """Check the health of an encoder without labels.

    Measures how many directions the features use (RankMe, alpha-ReQ, LiDAR), their
    spread, how far apart views of one image and different images are, dead and
    duplicate features, and images of the wrong range. Prints a verdict in one line,
    and what to try. --compare ranks several encoders, and prints how well each
    measure's ranks correlate with accuracy on the zoo's own encoders.
    Exits with 1 if the encoder is unhealthy.

    examples:
      sslzoo doctor simclr-digits digits
      sslzoo doctor runs/mine scans/ --policy xray --html health.html
      sslzoo doctor runs/mine scans/ --compare runs/other theirs.onnx --by effective_rank
      sslzoo doctor features.npz
    """
    check_page(html, force)
    if by and not compare:
        raise InvalidInputError(f"--by orders the encoders of --compare. Received: --by {by} without --compare")
    images = (images[0] if len(images) == 1 else images) or None
    from sslzoo.downstream import ranking
    from sslzoo.downstream.encoders import as_features, onnx_encoder
    from sslzoo.downstream.pages import diagnosis_page

    scale, encoders = options.pop("scale"), (encoder, *compare)
    takes_scale = [each for each in encoders if each.endswith(".onnx")] if compare else [encoder]
    if scale is not None and not takes_scale:
        raise InvalidInputError(f"--scale is for .onnx files. Received: --scale {scale}, {', '.join(encoders)}")
    options |= {"views": policy}
    for each in compare and encoders:  # before the first is measured
        if encoders.count(each) > 1:
            raise InvalidInputError(f"Encoders in order are of different names. Received: {each!r} twice")
        if each.endswith(".onnx"):
            onnx_encoder(each, scale)
        elif as_features(each) is None:
            zoo.results_of(each)
    diagnoses = [
        sslzoo.diagnose(each, images, scale=scale if each in takes_scale else None, **options) for each in encoders
    ]
    found = ranking.rank(diagnoses, by) if compare else None
    say(dict.fromkeys(remark for diagnosis in diagnoses for remark in diagnosis.remarks))
    if len({diagnosis.policy for diagnosis in diagnoses if diagnosis.viewed}) > 1:
        say(["Each encoder saw the views of its own training: compare alignment, separation and LiDAR with --policy."])
    first = diagnoses[0]
    if html:
        page = diagnosis_page(first, str(found or ""))
        write_beside(html, page)
    text = f"{first}\n" + (f"\n{found}\n" if found else "") + (f"\nWrote {html}\n" if html else "")
    return Answer((found or first).to_dict(), text, int(not first.healthy))
