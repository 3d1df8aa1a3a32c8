"""Files that a service outside reads for us."""

from penstock_apps.knowledge.parse.errors import NotParsed
from penstock_apps.knowledge.parse.llamaparse import LlamaParse

__all__ = ["LlamaParse", "NotParsed"]
