"""What the API takes and gives, as OpenAPI shows it."""
