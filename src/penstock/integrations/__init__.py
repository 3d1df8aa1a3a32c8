"""Penstock inside the frameworks that people build with."""
