"""Child processes under watch: started, limited, killed, and their deaths explained.

Knows nothing of jobs. A worker talks to its children over sockets; a warden, which is a process of
its own, has them as children, looks at what they use and kills them.
"""
