"""How fast documents come in, beside CocoIndex, beside bare pypdfium2, and the second time."""
