"""Leading an app to a test's database, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from penstock.app import Penstock
from penstock.testing.aside import run_aside
from penstock.testing.ground import add_ground

CLOSE_WAIT = 20.0


@contextmanager
def led_to(app: Penstock, url: str) -> Iterator[Penstock]:
    """Lead an app to a database while a test runs; afterwards it is closed and led back.

        @pytest.fixture
        def app(penstock_url):
            with led_to(shop.app, penstock_url) as app:
                yield app

    It blocks, so that it serves tests of any kind: the app may be used with `await` in whatever
    loop the test has, and with `app.sync`.
    """
    before = app.database
    app._link.lead_to(replace(before, url=url, data_dir=None, listen_url=None))
    add_ground(url)
    try:
        yield app
    finally:
        _close(app)
        app._link.lead_to(before)


def _close(app: Penstock) -> None:
    """Close the app in the loop that it is open in, wherever that is."""
    app.sync.close()
    loop = app._link.loop
    if loop is None:
        return
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(app.close(), loop).result(CLOSE_WAIT)
    elif loop.is_closed():
        run_aside(app.close())  # Its connections have ended with the loop; the app does not know.
    else:
        loop.run_until_complete(app.close())
