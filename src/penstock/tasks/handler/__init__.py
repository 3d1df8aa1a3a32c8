"""What a handler can use and raise."""
