"""Nothing here needs a database."""

import os

from hypothesis import settings

EXAMPLES = 100 if os.environ.get("PENSTOCK_LONG") else 30

# A slow machine is no fault of the code; wrong answers are what these look for.
settings.register_profile("penstock", deadline=None, max_examples=EXAMPLES)
settings.load_profile("penstock")
