"""Fetch pages of the public web without reaching into the private network."""
