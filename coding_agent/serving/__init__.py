"""Sessions that outlive their clients: a host that keeps them, and terminals that come and go over its Unix socket.

On the host's side `operations` says what can be asked, `client` is a process for each client; on the other `attach`
and `socket_channel`; `serve` starts and stops such hosts. The socket is the control socket of `coding_agent.control`.
"""
