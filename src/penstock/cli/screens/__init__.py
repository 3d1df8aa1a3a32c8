"""What the commands draw for people."""
