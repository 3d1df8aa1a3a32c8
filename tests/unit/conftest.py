"""Nothing here needs a database."""

from hypothesis import settings

# A slow machine is no fault of the code; wrong answers are what these look for.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
