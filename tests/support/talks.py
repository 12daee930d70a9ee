"""Talking to a server over the protocol, with the official client."""

from __future__ import annotations

import asyncio
import os
import sys

from mcp import Client

PIT = os.path.join(os.path.dirname(sys.executable), "pit")


def talk(target, conversation, **options):
    """What `conversation(client)` answers."""

    async def run():
        async with Client(target, **options) as client:
            return await conversation(client)

    return asyncio.run(run())


async def told(client, tool, **arguments):
    """The facts a tool tells."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content[0].text
    return answer.structured_content


async def refused(client, tool, **arguments):
    """Why a tool refuses."""
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, answer.structured_content
    return answer.content[0].text
