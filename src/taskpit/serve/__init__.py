"""The gateway: a queue's store over HTTP, for workers on other machines. `taskpit.store.http.client` is the other end.

rights.py      what a token may do, and under which names
calls.py       calls by name, and calls of the store that many callers share
line.py        workers that wait for a task
members.py     names in use, claims whose worker has left, and the grace after a start
gateway.py     the verbs: from a request that was let in to an answer
server.py      the gateway on its socket

Guard, limits, tokens and the server itself are in `taskpit.store.http`: they know nothing of queues.
"""
