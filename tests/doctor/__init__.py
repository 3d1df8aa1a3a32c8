"""What the doctor finds, on a real Postgres that is really ill."""
