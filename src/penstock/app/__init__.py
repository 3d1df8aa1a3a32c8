"""The app, its client, and blocking versions of both for code that does not await."""
