"""The tables and pages that commands print for people."""
