"""The MCP server: the queue's verbs as tools, its tasks as resources, for agents that speak the protocol.

    tools     what there is, as data: names, descriptions, schemas
    desk      what each tool does, over a Queue
    texts     tasks, board and prompts as text
    changes   who is told what has changed
    server    the protocol, by the official SDK
    serving   standard input and output, or HTTP behind the guard

Only `changes`, `server` and `serving` need the extra `mcp`. Nothing is remembered about a connection: every call names
the task and the worker it speaks for, so that any client may go on where another stopped.
"""
