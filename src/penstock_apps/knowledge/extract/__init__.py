"""Extract the text of a file on disk, without a database or the network.

The libraries for a format are imported when the first file of that format is read.
"""

from penstock_apps.knowledge.extract.detect import sniff
from penstock_apps.knowledge.extract.extract import extract
from penstock_apps.knowledge.extract.limits import ReadLimits

__all__ = ["ReadLimits", "extract", "sniff"]
