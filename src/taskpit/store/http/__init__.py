"""Everything that speaks HTTP: one server with one set of limits behind one guard.

limits.py      connections, bytes and time, for each client and for all of them
listening.py   where a server listens, and whether others reach it there
guard.py       Host, Origin, tokens, sessions: which request reaches an application
server.py      sockets, TLS, uvicorn
"""
