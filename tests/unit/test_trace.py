"""Where a child process was when it died, as people want to read it."""

from penstock.isolation.death import shorten_trace

BELOW = """\
  File "/site/penstock/worker/run/executor.py", line 390 in _call
  File "/python/concurrent/futures/thread.py", line 58 in run
  File "/python/threading.py", line 1002 in _bootstrap
"""
IDLE = """\
  File "/python/asyncio/runners.py", line 118 in run
  File "/site/penstock/worker/children/main.py", line 40 in live
  File "/site/penstock/isolation/supervisor.py", line 174 in _become
"""
HANDLER = """\
  File "/python/ctypes/__init__.py", line 519 in string_at
  File "/shop/parsing.py", line 22 in parse
"""
SHOWN = f"Most recent call first:\n{HANDLER}".rstrip()


def test_of_a_crash_the_thread_that_crashed_is_shown() -> None:
    raw = f"""\
Fatal Python error: Segmentation fault

Current thread 0x00007f88ad8326c0 (most recent call first):
{HANDLER}{BELOW}
Thread 0x00007f88afc98b80 (most recent call first):
  File "/shop/other.py", line 1 in beside
{IDLE}
Extension modules: msgspec._core, uvloop.loop (total: 2)
"""
    assert shorten_trace(raw) == f"Fatal Python error: Segmentation fault\n{SHOWN}"


def test_trace_of_a_killed_child_shows_its_busy_threads() -> None:
    raw = f"""\
Thread 0x00007f88ad8326c0 (most recent call first):
{HANDLER}{BELOW}
Current thread 0x00007f88afc98b80 (most recent call first):
{IDLE}"""
    assert shorten_trace(raw) == SHOWN


def test_a_thread_that_only_waits_tells_nothing() -> None:
    waits = f"""\
Thread 0x00007f88ad8326c0 (most recent call first):
  File "/python/threading.py", line 327 in wait
{BELOW}
"""
    assert (
        shorten_trace(waits + f"Current thread 0x1 (most recent call first):\n{HANDLER}") == SHOWN
    )


def test_what_cannot_be_shortened_stays_as_it_is() -> None:
    assert shorten_trace("") == ""
    assert shorten_trace("Fatal Python error: Aborted\n") == "Fatal Python error: Aborted"
    crash = "Fatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n  <no frame>"
    assert shorten_trace(crash) == crash
