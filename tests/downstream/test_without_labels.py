"""The benchmark of label-free measures: its statistics, and that what is printed is what is stored."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from sslzoo.downstream import ranking
from sslzoo.files import module_at

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(BENCHMARKS))  # it takes a function from another
    benchmark = module_at(BENCHMARKS / "without_labels.py")
rng = np.random.default_rng(0)


def test_rank_correlations_are_spearmans():
    first, second = rng.integers(0, 5, (4, 12)), rng.normal(size=(4, 12))
    expected = [spearmanr(a, b)[0] for a, b in zip(first, second)]
    assert benchmark.rank_correlations(first, second) == pytest.approx(expected, rel=1e-12)
    assert np.isnan(benchmark.rank_correlations(np.ones((1, 5)), rng.normal(size=(1, 5))))


def test_groups_count_by_their_size():
    same = np.stack([np.arange(6.0), np.arange(6.0)], axis=1)
    reverse = np.stack([np.arange(3.0), -np.arange(3.0)], axis=1)
    found = benchmark.spearman([same, reverse])
    assert (
        found["spearman"] == pytest.approx((6 - 3) / 9, abs=1e-3) and found["low"] <= found["spearman"] <= found["high"]
    )


def test_page_and_table_are_those_of_the_results():
    """After a change: python benchmarks/without_labels.py --again"""
    record = json.loads(benchmark.RESULTS.read_text())
    rows = benchmark.all_correlations(record["entries"])
    assert ranking.CORRELATIONS.read_text() == benchmark.as_csv(rows)
    page = benchmark.PAGE.read_text(encoding="utf-8")
    assert page == benchmark.tables.with_rows(page, benchmark.page_rows(rows), "correlations")
    methods = {method for family in benchmark.FAMILIES.values() for method in family}
    assert {entry["method"] for entries in record["entries"].values() for entry in entries} <= methods
