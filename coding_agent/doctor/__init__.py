"""What could keep the program from working here: `command` runs the checks, each other module looks at one thing.

A check is a function from a `Place` to findings. It changes nothing, and it never shows a credential.
"""
