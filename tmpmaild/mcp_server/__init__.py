"""An MCP server over stdio, with which an agent creates inboxes at a running service and reads their mail."""

try:
    import mcp as _mcp
except ImportError as error:
    raise ImportError("the MCP server needs the MCP SDK: pip install mcp httpx2 pydantic") from error

from tmpmaild.mcp_server.serving import serve

del _mcp

__all__ = ["serve"]
