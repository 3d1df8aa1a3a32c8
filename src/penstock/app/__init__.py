"""The app, its client, and the same calls for code that does not await."""
