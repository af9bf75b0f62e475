"""A host, looked into from a prompt: what `lemon_otp.repl` shows of every tree, and what a host knows beside.

`ledger` keeps what sessions are at and what they have used up, `operations` is what can be asked of the host, `pages`
how it is shown, `repl_command` the program.
"""
