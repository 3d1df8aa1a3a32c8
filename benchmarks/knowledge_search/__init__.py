"""How well and how fast knowledge is searched, on manuals that Debian has packaged."""
