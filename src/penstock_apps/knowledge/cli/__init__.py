"""`penstock ingest` and `penstock search`."""
