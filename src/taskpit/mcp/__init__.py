"""The MCP server: the queue's verbs as tools, its tasks as resources, for agents that speak the protocol.

    tools     what there is, as data, and what each tool does over a Queue
    server    the protocol by the official SDK, resources and prompts, what clients hear of changes, stdio or HTTP

Only `server` needs the extra `mcp`. Nothing is remembered about a connection: every call names
the task and the worker it speaks for, so that any client may go on where another stopped.
"""
