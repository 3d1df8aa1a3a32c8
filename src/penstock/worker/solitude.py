"""How long a worker may keep itself for jobs that run alone."""

from __future__ import annotations

from time import monotonic


class Solitude:
    """A bound on isolation: after so many seconds of it in a row, the others count more.

    A worker that died with a hundred jobs leaves a hundred suspects, of which at most one is
    guilty. To run each of them alone could take a day; meanwhile fresh jobs would wait. So lone
    jobs get the worker for a while, and then for as long run beside the others.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._since: float | None = None
        self._denied_until = 0.0

    def grant(self) -> bool:
        """Whether a suspect may have the worker for itself now."""
        now = monotonic()
        if now < self._denied_until:
            return False
        if self._since is None:
            self._since = now
        if now - self._since < self._longest:
            return True
        self.deny()
        return False

    def deny(self) -> None:
        """From now on lone jobs run beside the others, for as long."""
        self._denied_until = monotonic() + self._longest
        self._since = None

    def end(self) -> None:
        """An ordinary job has started: the row is broken."""
        self._since = None
