"""The app that all processes of a test share: its tasks, and a store that keeps a log."""

from collections.abc import Callable
from pathlib import Path

from penstock import Penstock
from tests.chaos.lines import Lines
from tests.chaos.recorded import Failpoint, RecordedStore
from tests.chaos.tasks import Effects, register
from tests.fixtures.app import use_store


def make_app(
    url: str,
    name: str,
    folder: Path,
    failpoint: Failpoint | None = None,
    blocks_now: Callable[[], object] = lambda: None,
) -> Penstock:
    """An app whose log and effects carry the name of its process."""
    store = RecordedStore(Lines(folder / "log.jsonl", name), failpoint)
    app = Penstock(url)
    use_store(app, store)
    effects = Effects(Lines(folder / "effects.jsonl", name), store)
    register(app, effects, folder / "gates", blocks_now)
    return app
