"""Runs child processes under a supervisor that limits and kills them and explains their deaths.

This package knows nothing of jobs. A worker talks to its children over sockets. The supervisor, a
process of its own, is their parent: it watches what they use and kills them.
"""
