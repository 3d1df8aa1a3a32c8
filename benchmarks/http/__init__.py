"""What the database costs an enqueue over HTTP, and what a server does with too much."""
