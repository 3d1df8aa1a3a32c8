"""What is measured, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.before_after.scenes.http import served
from benchmarks.before_after.scenes.ingest import ingested
from benchmarks.comparison.rounds import Lane, Measurement
from benchmarks.comparison.table import ROWS

Row = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Scene:
    """How much of it there is, what is done with it, and how people read what comes of that."""

    name: str
    share: float  # of the jobs of a plain drain
    measurements: Sequence[Measurement] = (Lane.free,)
    rows: Sequence[Row] = tuple(ROWS)
    unit: str = "jobs"
    least: int = 100

    def quick(self) -> Scene:
        """With its first measurement alone."""
        return replace(self, measurements=self.measurements[:1])

    def jobs(self, of_plain: int) -> int:
        return max(self.least, round(of_plain * self.share))


SCENES = {
    scene.name: scene
    for scene in (
        Scene("plain", 1.0, (Lane.free, Lane.held, Lane.single)),
        Scene("tenants", 0.5),
        Scene("limits", 0.5),
        Scene("isolated", 0.1),
        Scene(
            "http",
            0.5,
            (served,),
            (
                ("drain_per_s", "enqueue in bulk over HTTP, jobs/s", 0),
                ("worker_cpu_ms", "server CPU per 1,000 jobs, ms", 1),
                ("postgres_cpu_ms", "Postgres CPU per 1,000 jobs, ms", 1),
                ("memory_mb", "server memory at most, MB", 0),
            ),
        ),
        Scene(
            "ingest",
            0.004,
            (ingested,),
            (
                ("drain_per_s", "documents come in, files/s", 1),
                ("worker_cpu_ms", "worker CPU per 1,000 files, ms", 0),
                ("postgres_cpu_ms", "Postgres CPU per 1,000 files, ms", 0),
                ("chunks", "chunks", 0),
                ("embedded", "texts embedded", 0),
                ("embed_calls", "calls of the model", 0),
            ),
            unit="files",
            least=8,
        ),
    )
}
