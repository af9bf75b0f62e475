"""Edge. A bash command, parsed by tree-sitter's grammar and taken apart into everything it does.

The grammar is not bash, so nothing it says is taken on trust: only constructs listed here are accepted, every word is
read again by `shell_words`, words must stand apart, heredocs must end where bash would end them. What is left over is
`Unclear`, never nothing. The parser is an extra (`permissions`) and loaded with the first command that needs it.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from coding_agent.permissions.parts import Part, ReadsFile, Run, RunsFile, Unclear, WritesFile
from coding_agent.permissions.shell_programs import changes_meaning, expand, program_name
from coding_agent.permissions.shell_words import NotOneWord, Word, word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST: Final = 100_000
DEPTH_MAX: Final = 60
CODE_DEPTH_MAX: Final = 8

_SHELL_WORDS: Final = frozenset(
    {"!", "{", "}", "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for"}
    | {"select", "function", "in"}
)
_STRUCTURE: Final = frozenset(
    {"program", "list", "pipeline", "subshell", "compound_statement", "negated_command", "if_statement", "elif_clause"}
    | {"else_clause", "while_statement", "do_group", "case_statement", "case_item", "command_substitution"}
    | {"process_substitution", "redirected_statement", "function_definition", "string", "concatenation", "array"}
    | {"command_name", "for_statement"}
)
"""Constructs that do nothing of their own: what stands in them is what they do."""
_TEXT: Final = frozenset(
    {"word", "number", "string_content", "extglob_pattern", "regex", "variable_name", "special_variable_name"}
    | {"heredoc_content", "file_descriptor", "test_operator"}
)
"""Leaves. None of them may hold an expansion: the grammar would have made it a node of its own."""
_QUOTED: Final = frozenset({"raw_string", "ansi_c_string", "comment"})
_WORDS: Final = frozenset(
    {"word", "number", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion", "expansion"}
    | {"command_substitution", "process_substitution", "arithmetic_expansion", "translated_string", "brace_expression"}
)
_PARAMETER_OPERATORS: Final = frozenset(
    {":-", "-", ":=", "=", ":+", "+", ":?", "?", "#", "##", "%", "%%", "/", "//", "/#", "/%", "^", "^^", ",", ",,"}
    | {"${", "}", "[", "]", '"', "$"}
)
_ARITHMETIC_TESTS: Final = frozenset({"-v", "-R", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_HIDDEN: Final = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[({\[A-Za-z_0-9@*#?!$-])")
_HARMLESS_TARGETS: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"})
_WRITERS: Final = frozenset(
    {"tee", "cp", "mv", "ln", "dd", "install", "sed", "curl", "wget", "tar", "unzip", "patch", "chmod"}
)
_MOVES: Final = frozenset({"cd", "pushd", "popd"})
_JOINED_LINE: Final = re.compile(r"(?<![ \t\\])\\\n|\\\\\n")


class NoParser(Exception):
    """The parser is not installed."""


def parts_of(command: str) -> tuple[Part, ...]:
    """Everything a command does, each part once for every place it stands in.

    Raises:
        NoParser: The extra `permissions` is not installed.
    """
    found = list(_Reader(0).read(command))
    if any(isinstance(part, Run) and part.words[0].text in _MOVES for part in found):
        found = [_elsewhere(part) for part in found]
    return tuple(_without_files_run(found))


def _without_files_run(found: list[Part]) -> Iterator[Part]:
    """A program in a file is judged by its name, unless the command itself may have written it just before."""
    writes = any(isinstance(part, WritesFile) or _writer(part) for part in found)
    for part in found:
        if not isinstance(part, RunsFile):
            yield part
        elif writes:
            yield Unclear(f"{part.path} is run, and may have been written just before")


def _writer(part: Part) -> bool:
    return isinstance(part, Run) and program_name(part.words[0]) in _WRITERS


def _elsewhere(part: Part) -> Part:
    """After a `cd` a relative path leads somewhere else."""
    if isinstance(part, WritesFile | ReadsFile) and not part.path.startswith("/"):
        return Unclear(f"{part.shown} after a change of the directory")
    return part


@lru_cache(maxsize=1)
def _parser() -> "Parser":
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    except ImportError as error:
        raise NoParser(
            "commands cannot be taken apart: the extra lemon-agents[permissions] is not installed"
        ) from error
    return Parser(Language(tree_sitter_bash.language()))


class _Reader:
    """Reads one piece of code; `depth` is how many pieces it stands in."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.data = b""

    def read(self, code: str) -> Iterator[Part]:
        if self.depth > CODE_DEPTH_MAX:
            yield Unclear("code within code, too deep to follow")
            return
        parser = _parser()
        try:
            self.data = code.encode()
        except UnicodeEncodeError:
            yield Unclear("the command holds half a character")
            return
        if len(self.data) > LONGEST:
            yield Unclear("the command is too long to be taken apart")
        elif any(char < " " and char not in "\t\n" for char in code) or "\x7f" in code:
            yield Unclear("the command holds control characters")
        elif _JOINED_LINE.search(code):
            yield Unclear("a line is continued in the middle of a word")
        else:
            tree = parser.parse(self.data)
            if tree.root_node.has_error:
                yield Unclear("the command cannot be parsed")
            else:
                yield from self.visit(tree.root_node, 0)

    def code(self, code: str) -> Iterator[Part]:
        return _Reader(self.depth + 1).read(code)

    def text(self, node: "Node") -> str:
        return self.data[node.start_byte : node.end_byte].decode(errors="replace")

    def visit(self, node: "Node", depth: int) -> Iterator[Part]:
        if depth > DEPTH_MAX:
            yield Unclear("the command is nested too deep to follow")
            return
        kind = node.type
        if kind == "command":
            yield from self.command(node, depth)
        elif kind == "variable_assignment":
            yield from self.assignment(node, depth)
        elif kind in ("declaration_command", "unset_command"):
            yield from self.declaration(node, depth)
        elif kind == "test_command":
            yield from self.test(node, depth)
        elif kind == "file_redirect":
            yield from self.file_redirect(node, depth)
        elif kind == "heredoc_redirect":
            yield from self.heredoc(node, depth)
        elif kind == "herestring_redirect":
            yield from self.children(node, depth)
        elif kind in ("simple_expansion", "expansion"):
            yield from self.expansion(node, depth)
        elif kind == "arithmetic_expansion":
            yield from self.arithmetic(node)
        elif kind in _TEXT:
            yield from self.leaf(node)
        elif kind in _QUOTED:
            yield from self.quoted(node)
        elif kind in _STRUCTURE:
            yield from self.structure(node, depth)
        else:
            yield Unclear(f"{kind.replace('_', ' ')} is not something that can be judged")

    def children(self, node: "Node", depth: int) -> Iterator[Part]:
        for child in node.children:
            if child.is_named:
                yield from self.visit(child, depth + 1)

    def structure(self, node: "Node", depth: int) -> Iterator[Part]:
        anonymous = {child.type for child in node.children if not child.is_named}
        if node.type == "compound_statement" and "((" in anonymous:
            yield Unclear("arithmetic with variables can run commands")
            return
        if node.type == "command_substitution" and "`" in anonymous and "\\" in self.text(node):
            yield Unclear("backslashes within backticks")
        if node.type == "program" or "\n" in self.text(node):
            yield from self.gaps(node)
        if node.type == "for_statement":
            yield from self.apart(node)
        yield from self.children(node, depth)

    def gaps(self, node: "Node") -> Iterator[Part]:
        """Between the nodes there may be blanks only: whatever else stands there was passed over."""
        if node.type in ("string", "concatenation"):
            return
        at = node.start_byte
        for child in node.children:
            gap = self.data[at : child.start_byte]
            if gap.strip(b" \t\n") not in (b"", b"\\"):
                yield Unclear("part of the command was not understood")
            at = max(at, child.end_byte)

    # Commands.

    def command(self, node: "Node", depth: int) -> Iterator[Part]:
        yield from self.apart(node)
        words: list[Word] = []
        environment: list[str] = []
        for child in node.children:
            if child.type == "variable_assignment":
                name = self.assigned(child)
                if changes_meaning(name, for_command=True):
                    environment.append(name)
                yield from self.value(child, depth)
            elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                yield from self.visit(child, depth + 1)
            elif child.type == "command_name" or child.type in _WORDS:
                yield from self.visit(child, depth + 1)
                found = self.word(child)
                if found is None:
                    yield Unclear(f"{self.text(child)[:60]} is no word to bash")
                    return
                words.append(found)
            elif child.is_named or child.type not in ("$",):
                yield Unclear(f"{child.type.replace('_', ' ')} in a command is not something that can be judged")
            else:
                yield Unclear("a lone $ in a command")
        if words:
            yield from self.run(words, tuple(environment))
        elif environment:
            yield Unclear(f"sets {', '.join(environment)}")

    def run(self, words: list[Word], environment: tuple[str, ...]) -> Iterator[Part]:
        if words[0].raw in _SHELL_WORDS:  # the grammar took for a program what bash takes for syntax, as in `! ! x`
            yield Unclear(f"{words[0].raw} is a word of the shell's own")
        yield from expand(Run(tuple(words), environment=environment), self.code)

    def word(self, node: "Node") -> Word | None:
        try:
            return word(self.text(node))
        except NotOneWord:
            return None

    def apart(self, node: "Node") -> Iterator[Part]:
        """Words that touch are one word to bash, whatever the grammar makes of them."""
        previous = None
        for child in node.children:
            if previous is not None and child.type not in (";", "\n"):
                gap = self.data[previous.end_byte : child.start_byte].replace(b"\\\n", b" ")
                touching = gap == b"" and "redirect" not in child.type and "redirect" not in previous.type
                if touching or gap.strip(b" \t") != b"":
                    yield Unclear("words are not where they seem to be")
            previous = child

    def assigned(self, node: "Node") -> str:
        name = node.child_by_field_name("name")
        return "" if name is None else self.text(name)

    def value(self, node: "Node", depth: int) -> Iterator[Part]:
        """What is done to make the value of an assignment."""
        name = node.child_by_field_name("name")
        if name is None or name.type != "variable_name":
            yield Unclear("a subscript can run commands")
            return
        previous = name
        for child in node.children:
            if child == name:
                continue
            if child.start_byte != previous.end_byte:
                yield Unclear("an assignment is not where it seems to be")
            if child.is_named:
                yield from self.visit(child, depth + 1)
                if child.type != "array" and self.word(child) is None:
                    yield Unclear("an assignment is not where it seems to end")
            previous = child

    def assignment(self, node: "Node", depth: int) -> Iterator[Part]:
        name = self.assigned(node)
        if changes_meaning(name, for_command=False):
            yield Unclear(f"setting {name} can change what commands do")
        yield from self.value(node, depth)

    def declaration(self, node: "Node", depth: int) -> Iterator[Part]:
        """`export`, `declare`, `local`, `readonly`, `unset`: variables for all commands to come."""
        yield from self.apart(node)
        words = []
        for child in node.children:
            if child.type == "variable_assignment":
                if changes_meaning(self.assigned(child), for_command=True):
                    yield Unclear(f"setting {self.assigned(child)} can change what commands do")
                yield from self.value(child, depth)
            elif child.is_named:
                yield from self.visit(child, depth + 1)
                found = self.word(child)
                if found is None or found.text is None or any(char in found.text for char in "[$`="):
                    yield Unclear("a declaration that cannot be judged")
                else:
                    words.append(found)
            else:
                words.append(Word(child.type, child.type))
        if words:
            yield Run(tuple(words))
            if any((part.text or "").startswith("-") and "f" not in (part.text or "") for part in words[1:]):
                yield Unclear("a declaration with options")

    def test(self, node: "Node", depth: int) -> Iterator[Part]:
        """`[[ ... ]]` and `[ ... ]`."""
        if node.children and node.children[0].type not in ("[", "[["):
            yield Unclear("arithmetic with variables can run commands")
            return
        waiting = [node]
        while waiting:
            inner = waiting.pop()
            for child in inner.children:
                if child.type == "test_operator" and self.text(child) in _ARITHMETIC_TESTS:
                    yield Unclear(f"a test with {self.text(child)} can run commands")
                elif child.type in ("binary_expression", "unary_expression", "negation_expression") or (
                    child.type == "parenthesized_expression"
                ):
                    waiting.append(child)
                elif child.is_named:
                    yield from self.visit(child, depth + 1)
        if node.children[0].type == "[" and "$" in self.text(node):
            yield Unclear("a test of something that shows only when it runs")
        yield Run((Word("[", "["),), plain_wrapper=True)

    # Redirections.

    def file_redirect(self, node: "Node", depth: int) -> Iterator[Part]:
        yield from self.children(node, depth)
        operator = next((child.type for child in node.children if not child.is_named), "")
        targets = node.children_by_field_name("destination")
        if len(targets) != 1:
            yield Unclear("a redirection that cannot be judged")
            return
        found = self.word(targets[0])
        if found is None or found.text is None:
            if targets[0].type != "process_substitution":
                yield Unclear(f"where {operator} {self.text(targets[0])[:60]} leads shows only when it runs")
            return
        path = found.text
        if operator in (">&", "<&") and re.fullmatch(r"\d*-?", path):
            return
        if path in _HARMLESS_TARGETS:
            return
        if path.startswith(("/dev/", "/proc/")) or not path:
            yield Unclear(f"a redirection to {path}")
        elif operator in ("<", "<&"):
            yield ReadsFile(path)
        elif operator in (">", ">>", ">|", "&>", "&>>", ">&"):
            yield WritesFile(path)
        else:
            yield Unclear(f"a redirection with {operator}")

    def heredoc(self, node: "Node", depth: int) -> Iterator[Part]:
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        end = next((child for child in node.children if child.type == "heredoc_end"), None)
        if start is None or end is None:
            yield Unclear("a heredoc that cannot be judged")
            return
        raw = self.text(start)
        quoted = any(char in raw for char in "'\"\\")
        yield from self.heredoc_place(node, start, end, quoted)
        for child in node.children:
            if child.type == "heredoc_body":
                if not quoted:
                    yield from self.heredoc_text(child, depth)
            elif child.is_named and child.type not in ("heredoc_start", "heredoc_end"):
                yield from self.visit(child, depth + 1)
        yield from self.heredoc_for_shell(node, "" if body is None else self.text(body), quoted)

    def heredoc_place(self, node: "Node", start: "Node", end: "Node", quoted: bool) -> Iterator[Part]:
        """Does bash end it on the same line? It takes the first that is the delimiter and nothing else."""
        try:
            delimiter = word(self.text(start)).text
        except NotOneWord:
            delimiter = None
        line_end = self.data.find(b"\n", start.end_byte)
        stop = self.data.find(b"\n", end.end_byte)
        rest = self.data[line_end + 1 : len(self.data) if stop < 0 else stop]
        lines = rest.decode(errors="replace").split("\n")
        if any(child.type == "<<-" for child in node.children):
            lines = [line.lstrip("\t") for line in lines]
        several = self.data.count(b"<<") > 1 and self.data[start.end_byte : line_end].count(b"<<")
        if delimiter is None or line_end < 0 or several or lines[-1] != delimiter or delimiter in lines[:-1]:
            yield Unclear("a heredoc that may end elsewhere")
        elif not quoted and "\\\n" in rest.decode(errors="replace"):
            yield Unclear("a heredoc with continued lines")

    def heredoc_text(self, node: "Node", depth: int) -> Iterator[Part]:
        if not node.children and _HIDDEN.search(self.text(node)):
            yield Unclear("a heredoc with something to expand")
        yield from self.children(node, depth)

    def heredoc_for_shell(self, node: "Node", body: str, quoted: bool) -> Iterator[Part]:
        """A heredoc may be the code of a shell: then that code is judged too."""
        if node.parent is not None and re.search(r"\b(ba|da|z|k|a)?sh\b", self.text(node.parent)[:200]) and quoted:
            yield from self.code(body)

    # Expansions and leaves.

    def expansion(self, node: "Node", depth: int) -> Iterator[Part]:
        for child in node.children:
            if child.type == "subscript":
                index = child.child_by_field_name("index")
                if index is None or not re.fullmatch(r"\d+|[@*]", self.text(index)):
                    yield Unclear("a subscript can run commands")
            elif child.is_named:
                yield from self.visit(child, depth + 1)
            elif child.type not in _PARAMETER_OPERATORS:
                yield Unclear(f"the expansion {self.text(node)[:60]} can run commands")
                return

    def arithmetic(self, node: "Node") -> Iterator[Part]:
        if not re.fullmatch(r"\$(\(\(|\[)[\d\s+*/%()<>=!&|^~-]*(\)\)|\])", self.text(node)):
            yield Unclear("arithmetic with variables can run commands")

    def leaf(self, node: "Node") -> Iterator[Part]:
        if node.child_count or _HIDDEN.search(self.text(node)):
            yield Unclear("something is expanded where none was expected")

    def quoted(self, node: "Node") -> Iterator[Part]:
        text = self.text(node)
        if node.type == "comment":
            before = self.data[node.start_byte - 1 : node.start_byte]
            if "\n" in text or (before and before not in b" \t\n;&|()"):
                yield Unclear("a comment that may be none")
        elif node.type == "raw_string" and not re.fullmatch(r"'[^']*'", text):
            yield Unclear("a quotation that may end elsewhere")
