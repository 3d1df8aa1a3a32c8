"""Many who listen to one server: what they cost while nothing happens, and how soon they hear."""
