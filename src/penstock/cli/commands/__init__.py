"""The commands, a file for each group; the root imports one when it is called."""
