"""The gateway: a queue's store over HTTP, for workers on other machines. `taskpit.store.remote` is the other end.

tokens.py      who may ask: names, hashes, ends, in a file beside the queue
rights.py      what each of them may do, and under which names
calls.py       calls by name: what is asked twice is done once
batches.py     many callers' items in one call of the store
waiting.py     workers in line for work, dealt to first come, first served
members.py     names in use, claims whose worker has left, and the grace after a start
gateway.py     the verbs: from a request that was let in to an answer
app.py         what is let in, how large, and how it is answered
http.py        HTTP/1.1 as callers speak it: bytes and connections
serving.py     sockets, TLS, the server
"""
