"""How another terminal looks at a running host: a Unix socket in a private folder.

`listener` is the process on the host's side, `client` the plain blocking other end, `operations` what can be asked.
"""
