"""Everything that speaks HTTP: a queue's store behind a gateway, and the server that gateway, board and MCP share.

address.py     https://host:8443/q, and the token that is shown there
wire.py        the verbs of a store as messages, made from the port's own annotations
connection.py  calls by name over `http.client`, repeated until they are answered
client.py      a store whose verbs are calls
tokens.py      who may ask a gateway: names, hashes, ends
limits.py      connections, bytes and time, for each client and for all of them
listening.py   where a server listens, and whether others reach it there
guard.py       Host, Origin, tokens, sessions: which request reaches an application
server.py      sockets, TLS, uvicorn

The verbs of a gateway are in `taskpit.serve`: they need the queue, which is above its stores.
"""
