"""What watches a run: its checkpoint, its journal and time, its health, and neighbors while it trains."""

import sslzoo.backend  # noqa: F401 - before Keras
from sslzoo.callbacks.checkpoint import Checkpoint, Journal, Scalars
from sslzoo.callbacks.ending import Pace, Stopwatch, UntilKNN
from sslzoo.callbacks.health import CollapseWarning
from sslzoo.callbacks.monitors import FiniteGuard, Health, KNNMonitor
from sslzoo.callbacks.tracking import Tracker
from sslzoo.methods.deepcluster import Recluster
from sslzoo.methods.energy_monitors import DivergenceGuard, EnergyHealth
from sslzoo.methods.memory_bank import ClusterBank

__all__ = [
    "Checkpoint",
    "ClusterBank",
    "CollapseWarning",
    "DivergenceGuard",
    "EnergyHealth",
    "FiniteGuard",
    "Health",
    "Journal",
    "KNNMonitor",
    "Pace",
    "Recluster",
    "Scalars",
    "Stopwatch",
    "Tracker",
    "UntilKNN",
]
