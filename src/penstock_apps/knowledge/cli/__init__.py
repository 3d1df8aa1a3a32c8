"""The commands `penstock ingest`, `penstock search` and `penstock knowledge`."""
