"""The steps of `throughput.py` as others would write them: SimCLR and SimVAE in plain PyTorch, SimCLR in lightly.

`throughput.py --peers torch lightly` runs this in a process of its own (two frameworks on one GPU would quarrel over
its memory) and reads the line of JSON that it prints; under PyTorch the plain step and its own take turns in one
process. By hand:

    python benchmarks/peers.py torch --method simclr --network resnet18 --images cifar10 --batch-size 512 --num-views 2

torch takes views that were made beforehand, images channels last, compiled on a GPU: the networks' own cost. lightly
takes random images through its own transforms and PyTorch's loader, a worker per core: the cost of training with it.
"""

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import resource
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

SHAPES = {"cifar10": (3, 32, 32), "mnist": (1, 28, 28)}


class Block(nn.Module):
    """conv3-BN-ReLU-conv3-BN, plus shortcut, ReLU."""

    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, filters, 3, stride, 1, bias=False),
            nn.BatchNorm2d(filters),
            nn.ReLU(inplace=True),
            nn.Conv2d(filters, filters, 3, 1, 1, bias=False),
            nn.BatchNorm2d(filters),
        )
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != filters:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


def conv(inputs, filters, size, stride):
    return nn.Sequential(
        nn.Conv2d(inputs, filters, size, stride, (size - 1) // 2, bias=False), nn.BatchNorm2d(filters), nn.ReLU()
    )


def conv_up(inputs, filters):
    return nn.Sequential(nn.ConvTranspose2d(inputs, filters, 4, 2, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU())


def dense(*widths):
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*[layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())])


def encoder(name, shape, latent):
    """The networks of `sslzoo.networks.encoder`, and how many features they give."""
    channels, height, width = shape
    if name == "mlp":
        body, features = nn.Sequential(nn.Flatten(), dense(channels * height * width, 500, 500, 2000)), 2000
    elif name == "convnet":
        sizes = ((channels, 32, 4, 2), (32, 64, 4, 2), (64, 128, 4, 2), (128, 128, 3, 1))
        body = nn.Sequential(*[conv(*size) for size in sizes], nn.Flatten())
        features = 128 * (height // 8) * (width // 8)
    elif name == "resnet18":
        strides = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))
        blocks = [Block(before, *row) for before, row in zip((64, *(row[0] for row in strides)), strides)]
        stem = conv(channels, 64, 3, 1)
        return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten()), 512
    else:
        raise SystemExit(f"There is no {name} here: mlp, convnet or resnet18.")
    return nn.Sequential(body, nn.Linear(features, latent)), latent


def decoder(name, shape, latent):
    channels, height, width = shape
    if name == "mlp":
        return nn.Sequential(
            dense(latent, 2000, 500, 500), nn.Linear(500, channels * height * width), nn.Unflatten(1, shape)
        )
    if name == "convnet":
        seed = (128, height // 8, width // 8)
        return nn.Sequential(
            nn.Linear(latent, int(np.prod(seed))),
            nn.Unflatten(1, seed),
            conv(128, 128, 3, 1),
            conv_up(128, 64),
            conv_up(64, 32),
            nn.ConvTranspose2d(32, channels, 4, 2, 1),
        )
    raise SystemExit(f"There is no decoder {name} here: mlp or convnet.")


class SimCLR(nn.Module):
    def __init__(self, name, shape, latent):
        super().__init__()
        self.encoder, features = encoder(name, shape, latent)
        self.head = nn.Sequential(
            nn.Linear(features, 512, bias=False), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 128)
        )

    def forward(self, views):
        """views (B, J = 2, C, H, W) -> loss"""
        z = functional.normalize(self.head(self.encoder(views.transpose(0, 1).flatten(0, 1))).float(), dim=1)
        scores = z @ z.T / 0.5
        scores = scores.masked_fill(torch.eye(len(z), dtype=torch.bool, device=z.device), -torch.inf)
        return functional.cross_entropy(scores, torch.arange(len(z), device=z.device).roll(len(z) // 2))


class SimVAE(nn.Module):
    def __init__(self, name, shape, latent):
        super().__init__()
        self.encoder, _ = encoder(name, shape, 2 * latent)
        self.decoder = decoder(name, shape, latent)

    def forward(self, views):
        """views (B, J, C, H, W) -> loss"""
        flat = views.flatten(0, 1)
        mean, log_var = self.encoder(flat).float().chunk(2, dim=1)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        images = torch.sigmoid(self.decoder(z).float())
        reconstruction = ((flat - images) ** 2).flatten(1).sum(1) / 0.02
        entropy = 0.5 * (log_var + np.log(2 * np.pi * np.e)).sum(1)
        z = z.unflatten(0, views.shape[:2])
        prior = ((z - z.mean(1, keepdim=True)) ** 2).sum((1, 2)) / 0.3
        return ((reconstruction - entropy).unflatten(0, views.shape[:2]).sum(1) + prior).mean()


def plain(options, device):
    """Batches of ready-made views for ever, and a step on one of them -> loss, in plain PyTorch."""
    shape = SHAPES[options.images]
    model = {"simclr": SimCLR, "simvae": SimVAE}[options.method](options.network, shape, options.latent_dim)
    model = model.to(device, memory_format=torch.channels_last)
    size = (options.batch_size, options.num_views, *shape)
    batches = [torch.rand(size, device=device) for _ in range(options.steps)]  # as `fit` has: none is in the cache yet
    return itertools.cycle(batches), stepper(model, options, device), sum(p.numel() for p in model.parameters())


def stepper(model, options, device):
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    forward = torch.compile(model) if device.type == "cuda" else model
    bfloat16 = options.precision == "mixed_bfloat16"

    def step(batch):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            loss = forward(batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def lightly(options, device):
    """lightly's own transforms, loss and head, PyTorch's loader; the network is ours."""
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform
    from PIL import Image

    shape, transform = SHAPES[options.images], SimCLRTransform(input_size=32, gaussian_blur=0.0)
    images = np.random.default_rng(0).integers(0, 256, (4 * options.batch_size, *shape[1:], shape[0]), "uint8")

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return len(images)

        def __getitem__(self, index):
            return transform(Image.fromarray(images[index]))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, features = encoder(options.network, shape, options.latent_dim)
            self.head, self.loss = SimCLRProjectionHead(features, 512, 128), NTXentLoss(0.5)

        def forward(self, views):
            return self.loss(*[self.head(self.encoder(view)) for view in views])

    loader = torch.utils.data.DataLoader(
        Images(),
        options.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=len(os.sched_getaffinity(0)),
        persistent_workers=True,
        pin_memory=device.type == "cuda",
    )
    model = Model().to(device, memory_format=torch.channels_last)

    def batches():
        while True:
            for views in loader:
                yield [view.to(device, non_blocking=True) for view in views]

    return batches(), stepper(model, options, device), sum(p.numel() for p in model.parameters())


def now():
    """Wall and processor seconds, those of the loader's workers included, ended or at work (these on Linux alone)."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    at_work = 0.0
    for worker in multiprocessing.active_children():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
            at_work += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return np.array([time.perf_counter(), time.process_time() + ended.ru_utime + ended.ru_stime + at_work])


def clocked(peer, options):
    """Wall and processor seconds of a peer's step, as a function that takes some steps; and its parameters."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batches, step, parameters = {"torch": plain, "lightly": lightly}[peer](options, device)
    for _ in range(2):  # compiles, and fills the loader's queue
        step(next(batches)).item()

    def seconds():
        began = now()
        for _ in range(options.steps):
            loss = step(next(batches))
        loss.item()
        return (now() - began) / options.steps

    return seconds, parameters


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("peer", choices=("torch", "lightly"))
    add("--method", choices=("simclr", "simvae"), default="simclr")
    add("--network", default="resnet18")
    add("--images", choices=tuple(SHAPES), default="cifar10")
    add("--batch-size", type=int, default=512)
    add("--num-views", type=int, default=2)
    add("--latent-dim", type=int, default=64)
    add("--precision", default="float32")
    add("--steps", type=int, default=20)
    options = parser.parse_args()
    seconds, parameters = clocked(options.peer, options)
    wall, processor = seconds()
    print(json.dumps({"wall": wall, "processor": processor, "parameters": parameters}))


if __name__ == "__main__":
    main()
