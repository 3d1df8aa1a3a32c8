"""The commands of `penstock`, one file per group. The root imports a file when it is needed."""
