"""Requests to the public web that cannot lead into our own network."""
