"""What can go wrong in a measurement."""

from penstock.errors import PenstockError


class BenchFailed(PenstockError):
    """A measurement could not be finished; the message says how far it came."""
