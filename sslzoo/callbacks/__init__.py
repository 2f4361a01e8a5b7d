"""What watches a run: its checkpoint, its journal and time, its health, and neighbours while it trains."""

from sslzoo.callbacks.checkpoint import Checkpoint, Journal, Pace, Stopwatch
from sslzoo.callbacks.energy import DivergenceGuard, EnergyHealth
from sslzoo.callbacks.health import CollapseWarning
from sslzoo.callbacks.monitors import FiniteGuard, Health, KNNMonitor, UntilKNN
from sslzoo.callbacks.narrator import Narrator

__all__ = [
    "Checkpoint",
    "CollapseWarning",
    "DivergenceGuard",
    "EnergyHealth",
    "FiniteGuard",
    "Health",
    "Journal",
    "KNNMonitor",
    "Narrator",
    "Pace",
    "Stopwatch",
    "UntilKNN",
]
