"""The asker's side of `lemon_otp.repl`: lines to queries, answers to pages, a connection, a prompt.

Programs with more to ask pass their own `Command`s and renderers to a `Shell`.
"""

from lemon_otp.repl_shell.asking import Asker, Unreachable
from lemon_otp.repl_shell.commands import Argument, BadCommand, Command, Flag, Query, parse, table
from lemon_otp.repl_shell.completing import Completion, Names, complete
from lemon_otp.repl_shell.drawing import Drawing, PlainDrawing, RichDrawing, drawing
from lemon_otp.repl_shell.main import add_shared_arguments
from lemon_otp.repl_shell.prompt import MissingExtra, prompt
from lemon_otp.repl_shell.render import Renderer, doing, process, render, seconds
from lemon_otp.repl_shell.sheets import Cell, Lines, Meaning, Page, Table, cell, lines, page, plain
from lemon_otp.repl_shell.shell import DONE, FAILED, USAGE, Shell, run_once

__all__ = [
    "DONE",
    "FAILED",
    "USAGE",
    "Argument",
    "Asker",
    "BadCommand",
    "Cell",
    "Command",
    "Completion",
    "Drawing",
    "Flag",
    "Lines",
    "Meaning",
    "MissingExtra",
    "Names",
    "Page",
    "PlainDrawing",
    "Query",
    "Renderer",
    "RichDrawing",
    "Shell",
    "Table",
    "Unreachable",
    "add_shared_arguments",
    "cell",
    "complete",
    "doing",
    "drawing",
    "lines",
    "page",
    "parse",
    "plain",
    "process",
    "prompt",
    "render",
    "run_once",
    "seconds",
    "table",
]
