"""The tree of a host in a browser: `observer` serves the page, `snapshot` and `timeline` are what it shows.

`server` drives a web server inside a process of ours and `guard` stands before it; the metrics endpoint uses both.
"""
