"""Penstock measured against its peers, and the page that shows it; no part of the package."""
