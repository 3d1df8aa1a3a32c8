"""The queues that are compared, one file each.

What is in this folder runs in the peer's own environment, where there is nothing but the standard
library, uvloop and the peer: `python -m benchmarks.peers chancy work`. Beside each file a
`NAME.txt` pins what that environment is made of. A peer is a module with

    FACTS             what it is, what it promises, how it is run, and why so
    install(url)      makes its tables in an empty database
    client(url)       a context that gives a `Client`
    worker(url, settings, runs)
                      a context in which one worker works; handlers call `runs.note(number)`
"""
