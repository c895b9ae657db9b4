"""Syntax errors in languages with a tree-sitter grammar; without installed grammars, none are found.

A grammar accepts more than a compiler does.  For C, it also accepts less, because of macros; there an error is
reported only if the brackets of the file do not match, which macros cannot cause.
"""

import functools
import importlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..findings import Finding, Source
from .leftovers import LONGEST, has_merge_markers, started_here

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree

# By suffix: the name of the language, the module with its grammar, and the grammar's name in it.
GRAMMARS = {
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), ("JavaScript", "tree_sitter_javascript", "language")),
    **dict.fromkeys((".ts", ".mts", ".cts"), ("TypeScript", "tree_sitter_typescript", "language_typescript")),
    ".tsx": ("TypeScript", "tree_sitter_typescript", "language_tsx"),
    ".go": ("Go", "tree_sitter_go", "language"),
    ".rs": ("Rust", "tree_sitter_rust", "language"),
    ".java": ("Java", "tree_sitter_java", "language"),
    **dict.fromkeys((".rb", ".rake", ".gemspec"), ("Ruby", "tree_sitter_ruby", "language")),
    ".c": ("C", "tree_sitter_c", "language"),
}
SUFFIXES = tuple(GRAMMARS)
MOST_LETTERS = 1024 * 1024  # of a file written by hand
SCRIPTS = ("JavaScript", "TypeScript")
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_NO_CODE = re.compile(  # in C: comments, literals, and preprocessor lines
    r"//(?:\\\n|[^\n])*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M
)


# Syntax of JavaScript and TypeScript that the grammars do not know.
_LIST = re.compile(r"\b((?:export|import)\s+(?:type\s+)?)(\{[^{}]*\})")
_RESERVED = re.compile(
    r"\b(?:null|true|false|function|void|enum|class|new|in|of|instanceof|typeof|delete|return|throw|var|if|for|do|while"
    r"|switch|case|catch|try|this|super|with|export|import|const|let|static|undefined|break|continue|else|finally)\b"
)
_VARIANCE = re.compile(
    r"(?<=[<,])((?:\s|/\*[^*]*\*+(?:[^/*][^*]*\*+)*+/)*+)((?:in[ \t]+)?(?:in|out))(?=\s+[A-Za-z_$])"
)
_NAMELESS = re.compile(r"\bexport\s+default\s+function\s*\(")


_USING = re.compile(r"(?<![\w.$])using(?=\s*(?:[-+*/|&?]{0,2}=|[.,;)\]?]))")
_NATIVE = re.compile(r"(?<=[(,=!&|])(\s*)%(?=[A-Z]\w+\()")  # functions of the engine
_DOUBLE = re.compile(rb"\w<<[A-Za-z_]")  # a generic function as the argument of a generic one


def _known(source: Source) -> str:
    """The text with such forms replaced by known ones of the same length."""
    text = _LIST.sub(lambda found: found[1] + _RESERVED.sub(lambda word: "_" * len(word[0]), found[2]), source.text)
    text = _NATIVE.sub(r"\1_", _USING.sub("_sing", text))
    text = _VARIANCE.sub(lambda found: found[1] + " " * len(found[2]), text)
    if re.search(r"\.d\.[mc]?ts$", source.path):
        text = _NAMELESS.sub(lambda found: "declare function" + "f(".rjust(len(found[0]) - 16), text)
    return text


def has_grammar(source: Source) -> bool:
    """Whether a grammar may exist for a file."""
    return source.path.endswith(SUFFIXES)


def is_known(source: Source) -> bool:
    """Whether the grammar for a file is installed."""
    is_bearable = source.path.endswith(SUFFIXES) and len(source.text) <= MOST_LETTERS
    return is_bearable and _language(_suffix(source)) is not None


def syntax(source: Source) -> Iterator[Finding]:
    """The first syntax error, according to the language's grammar."""
    tree = parsed(source)
    language = GRAMMARS[_suffix(source)][0]
    if tree is not None and tree.root_node.has_error and language in SCRIPTS:
        tree = parsed(replace(source, text=_known(source)))
    if tree is None or not tree.root_node.has_error or has_merge_markers(source.text):
        return
    if (language == "C" and _fits(source.text)) or _is_other(language, source.text):
        return
    node = _first_error(tree)
    if node is None:
        return
    data = source.text.encode()
    if language in SCRIPTS and _DOUBLE.search(data.split(b"\n")[_line(data, node) - 1]):
        return
    wants = f"{node.type!r} is missing" if node.is_missing else f"unexpected {_quoted(node)}"
    yield Finding(
        source.path,
        _line(data, node),
        "error",
        "syntax-error",
        f"this is no {language}: {wants}",
        "nothing in the file can be used until it is corrected",
        is_whole=True,
    )


def scripts(source: Source) -> Iterator[Finding]:
    """Debuggers and `eval` in JavaScript and TypeScript, anywhere in a line."""
    if GRAMMARS[_suffix(source)][0] not in SCRIPTS or not ("debugger" in source.text or "eval" in source.text):
        return
    tree = parsed(source)
    if tree is None:
        return
    data = source.text.encode()
    for node in _nodes(tree):
        if _is_packed(data, node):
            continue
        if node.type == "debugger_statement":
            yield started_here(source.path, _line(data, node))
        elif node.type == "call_expression" and _is_eval(node):
            message, advice = "eval runs whatever it is given", "parse the input instead, with JSON.parse"
            yield Finding(source.path, _line(data, node), "warning", "js-eval", message, advice)


def parsed(source: Source) -> "Tree | None":
    """The syntax tree of a file; None without a grammar."""
    if not is_known(source):
        return None
    from tree_sitter import Parser

    language = _language(_suffix(source))
    # a parser can be used by one thread only
    return Parser(language).parse(source.text.encode()) if language else None


def _suffix(source: Source) -> str:
    return next(suffix for suffix in SUFFIXES if source.path.endswith(suffix))


@functools.cache
def _language(suffix: str) -> "Language | None":
    _, module, name = GRAMMARS[suffix]
    try:
        from tree_sitter import Language

        return Language(getattr(importlib.import_module(module), name)())
    # not installed, or of a version that this library does not read
    except (ImportError, AttributeError, ValueError):
        return None


def _nodes(tree: "Tree") -> "Iterator[Node]":
    """Every node in the order of the text, without recursion, since a file can be nested deeper than the stack."""
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(node.children)


def _first_error(tree: "Tree") -> "Node | None":
    """The innermost node of the first error."""
    found, stack = None, [tree.root_node]
    while stack:
        node = stack.pop()
        if found is not None and node.start_byte >= found.end_byte:
            break
        if node.is_error or node.is_missing:
            found = node
        stack += [child for child in reversed(node.children) if child.has_error or child.is_missing]
    return found


def _line(data: bytes, node: "Node") -> int:
    # Counted here: the library's own count of lines frees memory twice (tree-sitter 0.26.0).
    return data.count(b"\n", 0, min(node.start_byte, len(data.rstrip()))) + 1


def _is_packed(data: bytes, node: "Node") -> bool:
    """Whether a line is too long to be written by hand."""
    start, end = data.rfind(b"\n", 0, node.start_byte), data.find(b"\n", node.start_byte)
    return (end if end >= 0 else len(data)) - start > LONGEST


def _quoted(node: "Node") -> str:
    words = (node.text or b"")[:200].decode(errors="replace").split("\n")[0].strip()
    return f"`{words[:30]}`" if words and "`" not in words else "text"


def _is_eval(node: "Node") -> bool:
    function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if function is None or arguments is None or function.type != "identifier" or function.text != b"eval":
        return False
    given = arguments.named_children
    return bool(given) and given[0].type not in ("string", "number")


def _is_other(language: str, text: str) -> bool:
    """Whether a file is not what its name says: Flow types, a template, or Rust before 2018."""
    if language == "Rust":
        return "try!(" in text
    return language in SCRIPTS and ("@flow" in text[:2000] or "<%" in text)


def _fits(text: str) -> bool:
    """Whether every bracket of a C file has its counterpart, or may have it in another preprocessor branch."""
    if re.search(r"^[ \t]*#[ \t]*(?:else|elif)", text, re.M):
        return True  # either branch may open a bracket that both close
    open_ones: list[str] = []
    for bracket in re.findall(r"[(\[{)\]}]", _NO_CODE.sub(" ", text)):
        if bracket in "([{":
            open_ones.append(bracket)
        elif not open_ones or open_ones.pop() != _BRACKETS[bracket]:
            return False
    return not open_ones
