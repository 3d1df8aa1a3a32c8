"""Child processes under watch: started, limited, killed, and their deaths explained.

This package knows nothing of jobs. A worker talks to its children over sockets. The supervisor, a
process of its own, is their parent: it watches what they use and kills them.
"""
