"""Reports put together: the mean over training seeds, and what was measured later of the same encoder."""

import dataclasses
import math

import numpy as np

from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import ALL_PROTOCOLS, Report


def mean(reports):
    """Mean and standard error (deviation with n - 1, over the root of n) of runs of one protocol.

    The SimVAE papers print three training seeds this way.

    Args:
        reports: list of at least two `Report`, of the same data, protocols and settings.

    Returns:
        `Report`; each number has its `error` and its `values`, in the order of the seeds.

    Raises:
        InvalidInputError: fewer than two reports, or reports that do not compare.
    """
    if len(reports) < 2:
        raise InvalidInputError(f"A mean needs at least 2 reports. Received: {len(reports)} reports")
    first = reports[0]
    for what in ("data", "protocols"):
        for ours, theirs in ((getattr(first, what), getattr(other, what)) for other in reports[1:]):
            if differing := [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]:
                raise InvalidInputError(
                    f"Reports must share data and protocols to be averaged. Received: {what} that differ in "
                    f"{', '.join(differing)}"
                )
    confusion = {
        probe: np.sum([one.confusion[probe] for one in reports], axis=0).tolist()
        for probe in first.confusion
        if all(probe in one.confusion for one in reports)
    }
    return Report(
        encoder=_distinct(", ", (one.encoder for one in reports)),
        data=dict(first.data),
        numbers={
            protocol: {metric: _mean([one.numbers[protocol][metric] for one in reports]) for metric in metrics}
            for protocol, metrics in first.numbers.items()
        },
        protocols=dict(first.protocols),
        seeds=[seed for one in reports for seed in one.seeds],
        seconds={key: float(np.mean([one.seconds[key] for one in reports])) for key in first.seconds},
        versions={
            key: _distinct(", ", (one.versions.get(key, "unknown") for one in reports)) for key in first.versions
        },
        frozen=[proof for one in reports for proof in one.frozen],
        remarks=list(dict.fromkeys(remark for one in reports for remark in one.remarks)),
        confusion=confusion,
    )


def _mean(numbers):
    """Mean of one number over several runs, with its standard error."""
    values = [number.value for number in numbers]
    chances = [number.chance for number in numbers if number.chance is not None]
    return dataclasses.replace(
        numbers[0],
        value=float(np.mean(values)),
        error=float(np.std(values, ddof=1) / math.sqrt(len(values))),
        values=[float(value) for value in values],
        chance=float(np.mean(chances)) if chances else None,
        note=_distinct("; ", (number.note for number in numbers)),
    )


def _distinct(between, texts):
    return between.join(dict.fromkeys(texts))


def merge(older, newer):
    """What one report holds and what another measured later of the same encoder, which counts where both have it."""
    whole = Report.from_dict(older.to_dict())
    for field in ("numbers", "protocols"):
        both = getattr(whole, field) | getattr(newer, field)
        first = [name for name in ALL_PROTOCOLS if name in both]
        setattr(whole, field, {name: both[name] for name in dict.fromkeys((*first, *both))})
    whole.seconds |= {name: seconds for name, seconds in newer.seconds.items() if name != "features"}
    whole.confusion |= newer.confusion
    whole.frozen = [*whole.frozen[:1], *(proof for proof in newer.frozen if proof not in whole.frozen)]
    whole.remarks += [remark for remark in newer.remarks if remark not in whole.remarks]
    return whole
