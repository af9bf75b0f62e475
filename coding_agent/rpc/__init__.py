"""The RPC protocol: commands and events as lines of JSON, over a pipe, over a socket, or in this process."""
