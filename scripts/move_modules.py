"""Move and merge modules, and rewrite whatever names them.

    python scripts/move_modules.py [--check] TABLE.toml …

A table names each target and the modules that become it, in the order in which they stand there:

    [packages]
    "shop.orders" = "The docstring of a package that is new."

    ["shop.orders.checks"]
    doc = "The docstring of the target; without it the first source's stays."
    from = ["shop.stuck", "shop.late"]
    rename = {"shop.late:_LOOK" = "_LATE_LOOK"}
    alias = {"shop.late:Events" = "EventStatements"}
    sections = true

`alias` renames what a source imports, and `sections` makes a heading of each source's docstring.
One run rewrites imports, uses of a module by its name, and dotted names in strings and docs. Where
two sources mean different things by one name, nothing is written and the script names each of them.

It needs libcst, which nothing else here does: `pip install libcst`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst
from libcst import metadata as meta

CODE = ("src", "tests", "benchmarks", "examples", "scripts")
# They name what another commit has.
KEPT = "benchmarks/before_after/adapters/base/"
TEXT = (".md", ".toml", ".txt", ".yml", ".yaml", ".cfg", ".html", ".sql", ".sh", "")
HEADER = "from __future__ import annotations\n"


@dataclass
class Target:
    """A module that others become."""

    name: str
    doc: str
    sources: list[str]
    renames: dict[tuple[str, str], str]
    aliases: dict[tuple[str, str], str] = field(default_factory=dict)
    sections: bool = False  # whether each source's docstring becomes a heading


@dataclass
class Edit:
    """What stands between two places of a text afterwards."""

    start: int
    end: int
    text: str


@dataclass
class Import:
    """A name that a module imports: `from module import name as local`, or `import module`."""

    module: str
    name: str | None
    local: str | None

    def line(self) -> str:
        if self.name is None:
            return f"import {self.module}" + (f" as {self.local}" if self.local else "")
        alias = f" as {self.local}" if self.local and self.local != self.name else ""
        return f"from {self.module} import {self.name}{alias}"


@dataclass
class Parsed:
    """One source of a merge after its references were rewritten."""

    module: str
    runtime: list[Import] = field(default_factory=list)
    typing: list[Import] = field(default_factory=list)
    body: str = ""
    defined: dict[str, str] = field(default_factory=dict)  # name -> text of a one-line definition
    needs: set[str] = field(default_factory=set)  # sources of the same target, at import
    doc: str = ""


class Problems(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)


problems = Problems()


def path_of(module: str) -> Path:
    base = Path("src", *module.split("."))
    package = base / "__init__.py"
    return package if package.exists() else base.with_suffix(".py")


def module_of(path: Path) -> str | None:
    parts = path.with_suffix("").parts
    if parts[0] == "src":
        parts = parts[1:]
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


def _mention(module: str) -> str:
    """What a file that imports the module must have in it."""
    parent, _, leaf = module.rpartition(".")
    if parent.count("."):
        return re.escape(parent)
    return rf"{re.escape(module)}|from {re.escape(parent)} import [^\n]*{leaf}"


class Moves:
    """The tables, looked up."""

    def __init__(self, targets: list[Target]) -> None:
        self.targets = targets
        self.to = {source: target for target in targets for source in target.sources}
        self.renames = {key: new for target in targets for key, new in target.renames.items()}
        old = sorted((s for s, t in self.to.items() if s != t.name), key=len, reverse=True)
        dotted = "|".join(re.escape(name) for name in old)
        paths = "|".join(re.escape(name.replace(".", "/")) for name in old)
        self.pattern = re.compile(rf"(?<![\w./])({dotted})(?![\w])") if old else None
        self.path_pattern = re.compile(rf"(?<![\w])({paths})\.py\b") if old else None
        self.mentions = re.compile("|".join(sorted({_mention(name) for name in self.to})))

    def in_text(self, text: str) -> str:
        if self.pattern is None or self.path_pattern is None:
            return text
        text = self.pattern.sub(lambda found: self.to[found[1]].name, text)
        return self.path_pattern.sub(
            lambda found: self.to[found[1].replace("/", ".")].name.replace(".", "/") + ".py", text
        )

    def target(self, module: str | None) -> Target | None:
        return self.to.get(module) if module else None

    def new_name(self, module: str, name: str) -> str:
        return self.renames.get((module, name), name)


class Reader(cst.CSTVisitor):
    """Collects the edits of one file."""

    METADATA_DEPENDENCIES = (
        meta.PositionProvider,
        meta.QualifiedNameProvider,
        meta.ParentNodeProvider,
        meta.ScopeProvider,
    )

    def __init__(self, moves: Moves, path: Path, text: str) -> None:
        self.moves, self.path = moves, path
        self.module = module_of(path)
        self.own = moves.target(self.module)
        self.text = text
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.edits: list[Edit] = []
        self.parsed = Parsed(self.module or "")
        self.header: list[tuple[int, int]] = []
        self.locals: dict[str, str] = {}  # local name of a module that moves -> what to write

    # Places

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        where = self.get_metadata(meta.PositionProvider, node)
        return (
            self.starts[where.start.line - 1] + where.start.column,
            self.starts[where.end.line - 1] + where.end.column,
        )

    def edit(self, node: cst.CSTNode, text: str) -> None:
        start, end = self.span(node)
        self.edits.append(Edit(start, end, text))

    def where(self, node: cst.CSTNode) -> str:
        line = self.get_metadata(meta.PositionProvider, node).start.line
        return f"{self.path}:{line}"

    # Top level

    def visit_Module(self, node: cst.Module) -> None:
        for place, statement in enumerate(node.body):
            is_docstring = place == 0 and self._is_docstring(statement)
            if is_docstring or self._is_import(statement) or self._is_typing_block(statement):
                self.header.append(self.span(statement))
        for place, statement in enumerate(node.body):
            if self._is_docstring(statement) and place == 0:
                self.parsed.doc = self._slice(statement)
            elif self._is_import(statement):
                for each in statement.body:  # type: ignore[union-attr]
                    self._collect(each, self.parsed.runtime)
            elif self._is_typing_block(statement):
                for line in statement.body.body:  # type: ignore[union-attr]
                    for each in line.body:
                        self._collect(each, self.parsed.typing)
            else:
                self._define(statement)

    def _slice(self, node: cst.CSTNode) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def _is_docstring(self, node: cst.CSTNode) -> bool:
        return (
            isinstance(node, cst.SimpleStatementLine)
            and isinstance(node.body[0], cst.Expr)
            and isinstance(node.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
        )

    def _is_import(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.SimpleStatementLine) and all(
            isinstance(each, (cst.Import, cst.ImportFrom)) for each in node.body
        )

    def _is_typing_block(self, node: cst.CSTNode) -> bool:
        return (
            isinstance(node, cst.If)
            and isinstance(node.test, cst.Name)
            and node.test.value == "TYPE_CHECKING"
            and node.orelse is None
            and all(self._is_import(each) for each in node.body.body)
        )

    def _define(self, node: cst.CSTNode) -> None:
        names: list[str] = []
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            names = [node.name.value]
        elif isinstance(node, cst.SimpleStatementLine):
            for each in node.body:
                targets = []
                if isinstance(each, cst.Assign):
                    targets = [target.target for target in each.targets]
                elif isinstance(each, cst.AnnAssign):
                    targets = [each.target]
                for target in targets:
                    if isinstance(target, cst.Name):
                        names.append(target.value)
                    elif isinstance(target, cst.Tuple):
                        names += [e.value.value for e in target.elements]  # type: ignore[attr-defined]
        text = self._slice(node)
        for name in names:
            one_line = isinstance(node, cst.SimpleStatementLine)
            self.parsed.defined[name] = text if one_line else f"<{self.module}>"

    def _collect(self, node: cst.CSTNode, into: list[Import]) -> None:
        """The imports that the header has, rewritten for the new house."""
        if isinstance(node, cst.Import):
            for alias in node.names:
                name = cst.Module([]).code_for_node(alias.name)
                local = alias.asname.name.value if alias.asname else None  # type: ignore[union-attr]
                if self.moves.target(name) and self.moves.to[name].name != name:
                    problems(f"{self.where(node)}: import {name} is not known here")
                into.append(Import(name, None, local))
        elif isinstance(node, cst.ImportFrom):
            module = cst.Module([]).code_for_node(node.module) if node.module else ""
            for alias in node.names:  # type: ignore[union-attr]
                name = alias.name.value
                local = alias.asname.name.value if alias.asname else None
                new = self._import(module, name, local)
                if new is not None and self.own is not None:
                    bound = new.local or new.name or ""
                    if alias_name := self.own.aliases.get((self.module or "", bound)):
                        self.locals[f"={local or name}"] = alias_name
                        new.local = alias_name
                if new is not None:
                    into.append(new)
                elif into is self.parsed.runtime:
                    source = module if self.moves.target(module) is self.own else f"{module}.{name}"
                    self.parsed.needs.add(source)

    def _import(self, module: str, name: str, local: str | None) -> Import | None:
        """One imported name: None where it is in the same module now."""
        whole = f"{module}.{name}"
        target = self.moves.target(whole)
        if target is not None and path_of(whole).exists() and not self._defines(module, name):
            if self.own is target:
                self.locals[local or name] = ""
                return None
            parent, _, leaf = target.name.rpartition(".")
            if local is None and leaf != name:
                if self._is_taken(leaf):
                    local = f"{parent.rpartition('.')[2]}_{leaf}"
                self.locals[name] = local or leaf
            return Import(parent, leaf, local)
        target = self.moves.target(module)
        if target is None:
            return Import(module, name, local)
        new = self.moves.new_name(module, name)
        if self.own is target:
            if local is not None and local != new:
                self.locals[f"={local}"] = new
            elif new != name:
                self.locals[f"={name}"] = new
            return None
        if local is None and new != name:
            self.locals[f"={name}"] = new
        return Import(target.name, new, local)

    def _is_taken(self, name: str) -> bool:
        """Whether the file uses the name for something, so that an import must not bind it."""
        body = self.text
        for start, end in sorted(self.header, reverse=True):
            body = body[:start] + body[end:]
        return bool(re.search(rf"(?<![\w.]){name}(?!\w)", body))

    def _defines(self, module: str, name: str) -> bool:
        """Whether a package defines the name itself, beside a module of that name."""
        path = path_of(module)
        if path.name != "__init__.py":
            return False
        bound: set[str] = set()
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                bound.add(node.name)
            elif isinstance(node, ast.ImportFrom) and node.module != module:
                bound |= {alias.asname or alias.name for alias in node.names}
        return name in bound

    # Uses

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        if self._in_header(node):
            return False
        module = cst.Module([]).code_for_node(node.module) if node.module else ""
        if isinstance(node.names, cst.ImportStar):
            problems(f"{self.where(node)}: import *")
            return False
        new = [
            self._import(
                module,
                alias.name.value,
                alias.asname.name.value if alias.asname else None,  # type: ignore[union-attr]
            )
            for alias in node.names
        ]
        old = [
            Import(module, alias.name.value, alias.asname.name.value if alias.asname else None)  # type: ignore[union-attr]
            for alias in node.names
        ]
        if new == old:
            return False
        left = [each.line() for each in new if each is not None]
        indent = " " * self.get_metadata(meta.PositionProvider, node).start.column
        if not left:
            left = ["pass"]
            problems_soft.append(f"{self.where(node)}: a local import became `pass`")
        self.edit(node, f"\n{indent}".join(left))
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        if not self._in_header(node):
            for alias in node.names:
                name = cst.Module([]).code_for_node(alias.name)
                if (target := self.moves.target(name)) and target.name != name:
                    problems(f"{self.where(node)}: import {name} is not known here")
        return False

    def _in_header(self, node: cst.CSTNode) -> bool:
        start, end = self.span(node)
        return any(first <= start and end <= last for first, last in self.header)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        if isinstance(node.value, cst.Name) and self._is_imported(node.value, ""):
            replacement = self.locals[node.value.value]
            start, _ = self.span(node)
            module = self._module_of_local(node.value)
            attribute = node.attr.value
            if module is not None:
                attribute = self.moves.new_name(module, attribute)
            _, end = self.span(node)
            text = f"{replacement}.{attribute}" if replacement else attribute
            if not replacement and self._is_bound_around(node, attribute):
                problems(f"{self.where(node)}: {attribute} is a local name here as well")
            if text != self.text[start:end]:
                self.edits.append(Edit(start, end, text))
            return False
        if isinstance(node.value, cst.Name):
            module = self._module_of_local(node.value)
            if module is not None and (module, node.attr.value) in self.moves.renames:
                self.edit(node.attr, self.moves.renames[(module, node.attr.value)])
        self._maybe_visit(node)
        return False

    def _is_bound_around(self, node: cst.CSTNode, name: str) -> bool:
        """Whether a function around it has a parameter or variable of that name."""
        scope = self.get_metadata(meta.ScopeProvider, node, None)
        while scope is not None and not isinstance(scope, meta.GlobalScope):
            if any(assignment.name == name for assignment in scope.assignments):
                return True
            scope = scope.parent if scope.parent is not scope else None
        return False

    def _maybe_visit(self, node: cst.Attribute) -> None:
        node.value.visit(self)

    def _module_of_local(self, name: cst.Name) -> str | None:
        for each in self.get_metadata(meta.QualifiedNameProvider, name, set()):
            if each.source is meta.QualifiedNameSource.IMPORT and each.name in self.moves.to:
                return each.name
        return None

    def _is_imported(self, name: cst.Name, prefix: str) -> bool:
        return prefix + name.value in self.locals and any(
            each.source is meta.QualifiedNameSource.IMPORT
            for each in self.get_metadata(meta.QualifiedNameProvider, name, set())
        )

    def visit_Name(self, node: cst.Name) -> None:
        if self._in_header(node):
            return
        parent = self.get_metadata(meta.ParentNodeProvider, node)
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            return
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            return
        names = self.get_metadata(meta.QualifiedNameProvider, node, set())
        if self._is_imported(node, ""):
            replacement = self.locals[node.value]
            if not replacement:
                problems(f"{self.where(node)}: the module {node.value} is used as a value")
                return
            self.edit(node, replacement)
        elif self._is_imported(node, "="):
            self.edit(node, self.locals[f"={node.value}"])
        elif self.module is not None and (self.module, node.value) in self.moves.renames:
            is_global = any(
                each.source is meta.QualifiedNameSource.LOCAL and each.name == node.value
                for each in names
            )
            if is_global:
                self.edit(node, self.moves.renames[(self.module, node.value)])

    # Strings

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        self._text(node)

    def visit_FormattedStringText(self, node: cst.FormattedStringText) -> None:
        self._text(node)

    def visit_Comment(self, node: cst.Comment) -> None:
        self._text(node)

    def _text(self, node: cst.CSTNode) -> None:
        if self._in_header(node):
            return
        was = self._slice(node)
        now = self.moves.in_text(was)
        if now != was:
            self.edit(node, now)


problems_soft: list[str] = []
packages: dict[str, str] = {}


def edited(text: str, edits: list[Edit]) -> str:
    for edit in sorted(edits, key=lambda each: each.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def with_header(reader: Reader) -> str:
    """The file with its references rewritten, its own header in place."""
    edits = list(reader.edits)
    for start, end in reader.header:
        statement = reader.text[start:end]
        edits.append(Edit(start, end, _header_statement(reader, statement)))
    return edited(reader.text, edits)


def _header_statement(reader: Reader, statement: str) -> str:
    """An import or a block of imports, for a file that stays."""
    tree = cst.parse_module(statement)
    node = tree.body[0]
    if isinstance(node, cst.If):
        inner = []
        for line in node.body.body:
            inner += _import_lines(reader, line)
        return "if TYPE_CHECKING:\n" + "\n".join(f"    {each}" for each in inner)
    if not reader._is_import(node):
        return reader.moves.in_text(statement)
    old = statement
    lines = _import_lines(reader, node)
    changed = any(_moves_something(reader.moves, each) for each in node.body)  # type: ignore[union-attr]
    return "\n".join(lines) if changed else old


def _moves_something(moves: Moves, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.ImportFrom) and node.module is not None:
        module = cst.Module([]).code_for_node(node.module)
        names = [alias.name.value for alias in node.names]  # type: ignore[union-attr]
        return module in moves.to or any(f"{module}.{name}" in moves.to for name in names)
    return False


def _import_lines(reader: Reader, line: cst.CSTNode) -> list[str]:
    lines = []
    for node in line.body:  # type: ignore[attr-defined]
        if isinstance(node, cst.ImportFrom) and _moves_something(reader.moves, node):
            module = cst.Module([]).code_for_node(node.module)  # type: ignore[arg-type]
            for alias in node.names:  # type: ignore[union-attr]
                local = alias.asname.name.value if alias.asname else None  # type: ignore[union-attr]
                new = reader._import(module, alias.name.value, local)
                if new is not None:
                    lines.append(new.line())
        else:
            lines.append(cst.Module([]).code_for_node(node).strip())
    return lines


def read(moves: Moves, path: Path) -> Reader | None:
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return None
    module = module_of(path)
    if not (moves.target(module) or moves.mentions.search(text)):
        return None
    wrapper = meta.MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    reader = Reader(moves, path, text)
    wrapper.visit(reader)
    return reader


def body_of(reader: Reader) -> str:
    """All but the header."""
    header = [Edit(start, end, "") for start, end in reader.header]
    return edited(reader.text, reader.edits + header).strip("\n")


def merge(target: Target, readers: dict[str, Reader]) -> str:
    """The text of a target."""
    order: list[str] = []
    waiting = list(target.sources)
    while waiting:
        for source in waiting:
            if not (readers[source].parsed.needs & set(waiting) - {source}):
                break
        else:
            problems(f"{target.name}: {waiting} import each other")
            source = waiting[0]
        waiting.remove(source)
        order.append(source)
    bound: dict[str, tuple[str, str]] = {}
    runtime: dict[str, None] = {}
    typing: dict[str, None] = {}
    bodies = []
    for source in order:
        reader = readers[source]
        body = body_of(reader)
        for name, text in reader.parsed.defined.items():
            new = target.renames.get((source, name), name)
            if new in bound:
                if text == bound[new][0] and not text.startswith("<"):
                    body = "\n".join(line for line in _without(body, text))
                    continue
                problems(f"{target.name}: {new} is defined in {bound[new][1]} and in {source}")
            bound[new] = (text, source)
        if target.sections and body.strip():
            heading = reader.parsed.doc.strip('"').partition("\n")[0].strip()
            body = f"# {heading}\n\n\n{body.lstrip()}"
        bodies.append(body)
        for into, imports in ((runtime, reader.parsed.runtime), (typing, reader.parsed.typing)):
            for each in imports:
                if each.module == "__future__":
                    continue
                into.setdefault(each.line())
    for source in order:
        reader = readers[source]
        for each in [*reader.parsed.runtime, *reader.parsed.typing]:
            local = each.local or each.name
            if local is None:
                local = each.module.partition(".")[0]
            what = each.line()
            if local in bound and bound[local][1] != source and each.module != "__future__":
                if bound[local][0] != f"import {what}":
                    problems(f"{target.name}: {local} is {what} in {source}, and in {bound[local]}")
            elif each.module != "__future__":
                bound.setdefault(local, (f"import {what}", source))
    typing = dict.fromkeys(line for line in typing if line not in runtime)
    head = (
        f'"""{target.doc}"""\n\n' if target.doc else readers[target.sources[0]].parsed.doc + "\n\n"
    )
    text = head + HEADER + "\n" + "\n".join(runtime) + "\n"
    if typing:
        text += "\nif TYPE_CHECKING:\n" + "".join(f"    {line}\n" for line in typing)
    return text + "\n\n" + "\n\n\n".join(body for body in bodies if body) + "\n"


def _without(body: str, statement: str) -> list[str]:
    found = body.find("\n" + statement + "\n")
    if body.startswith(statement + "\n"):
        return (body[len(statement) + 1 :]).splitlines()
    if found < 0:
        return body.splitlines()
    return (body[:found] + body[found + len(statement) + 1 :]).splitlines()


def load(paths: list[str]) -> list[Target]:
    targets = []
    for path in paths:
        tables = tomllib.loads(Path(path).read_text("utf-8"))
        packages.update(tables.pop("packages", {}))
        for name, table in tables.items():
            renames = _by_place(table.get("rename", {}))
            if len(table["from"]) > 1:
                renames = _qualified(table["from"], renames) | renames
            targets.append(
                Target(
                    name,
                    table.get("doc", ""),
                    table["from"],
                    renames,
                    _by_place(table.get("alias", {})),
                    table.get("sections", False),
                )
            )
    return targets


def _by_place(names: dict[str, str]) -> dict[tuple[str, str], str]:
    found = {}
    for key, new in names.items():
        module, _, old = key.partition(":")
        found[(module, old)] = new
    return found


def _qualified(
    sources: list[str], renames: dict[tuple[str, str], str]
) -> dict[tuple[str, str], str]:
    """New names for what several sources define and mean differently: `read` → `read_late`."""
    meanings: dict[str, dict[str, str]] = defaultdict(dict)
    imported: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        text = path_of(source).read_text("utf-8")
        for node in ast.parse(text).body:
            names: list[str] = []
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names = [node.name]
            elif isinstance(node, ast.Assign):
                names = [each.id for each in node.targets if isinstance(each, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                module = getattr(node, "module", "") or ""
                for alias in node.names:
                    if module not in sources and f"{module}.{alias.name}" not in sources:
                        imported[alias.asname or alias.name].add(f"{module}.{alias.name}")
            for name in names:
                meanings[renames.get((source, name), name)][source] = ast.unparse(node)
    new = {}
    for name, by in meanings.items():
        same = len(set(by.values())) == 1 and "\n" not in next(iter(by.values()))
        if (len(by) > 1 and not same) or name in imported:
            for source in by:
                new[(source, name)] = _qualify(name, source.rpartition(".")[2])
    return new


def _qualify(name: str, module: str) -> str:
    if name.isupper():
        return f"_{module.upper()}{name}" if name[0] == "_" else f"{module.upper()}_{name}"
    if name[0] == "_":
        return f"_{module}{name}"
    if name[0].isupper():
        return module.title().replace("_", "") + name
    return f"{name}_{module}"


def main(tables: list[str]) -> int:
    targets = load(tables)
    moves = Moves(targets)
    for source in moves.to:
        if not path_of(source).exists():
            problems(f"{source} does not exist")
    if problems:
        print("\n".join(problems))
        return 1
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    files = [Path(line) for line in listed.stdout.split("\n") if line]
    readers: dict[str, Reader] = {}
    writes: dict[Path, str] = {}
    for path in files:
        if not path.exists() or path.is_dir() or path.is_symlink() or str(path).startswith(KEPT):
            continue
        if path.suffix == ".py" and path.parts[0] in CODE:
            reader = read(moves, path)
            if reader is None:
                continue
            if path.parts[0] == "src" and moves.target(module_of(path)):
                readers[module_of(path) or ""] = reader
                continue
            text = with_header(reader)
            if text != reader.text:
                writes[path] = text
        elif (
            path.suffix in TEXT and path.name not in ("CHANGELOG.md",) and "moves" not in path.parts
        ):
            try:
                was = path.read_text("utf-8")
            except UnicodeDecodeError:
                continue
            now = moves.in_text(was)
            if now != was:
                writes[path] = now
    merged = {}
    for target in targets:
        alone = len(target.sources) == 1
        if alone:
            merged[target.name] = with_header(readers[target.sources[0]])
        else:
            merged[target.name] = merge(target, readers)
    print("\n".join(problems_soft))
    if problems:
        print("\n".join(problems))
        return 1
    if "--check" in sys.argv:
        return 0
    for target in targets:
        for source in target.sources:
            was = path_of(source)
            if source != target.name:
                subprocess.run(["git", "rm", "-q", "--cached", str(was)], check=True)
                was.unlink()
    for package, doc in packages.items():
        path = Path("src", *package.split("."), "__init__.py")
        if not path.exists():
            path.parent.mkdir(parents=True)
            path.write_text(f'"""{doc}"""\n', "utf-8")
    for target in targets:
        path = path_of(target.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(merged[target.name], "utf-8")
    for path, text in writes.items():
        path.write_text(text, "utf-8")
    changed = [str(path) for path in writes if path.suffix == ".py"]
    changed += [str(path_of(target.name)) for target in targets]
    ruff = Path(sys.executable).with_name("ruff")
    subprocess.run(
        [ruff, "check", "-q", "--select", "I,F401,F811,UP037", "--fix", *changed], check=False
    )
    subprocess.run([ruff, "format", "-q", *changed], check=True)
    subprocess.run(["git", "add", "-A", "src", "tests", "docs", "benchmarks"], check=True)
    print(f"{len(moves.to)} modules became {len(targets)}; {len(writes)} files name them.")
    return 0


if __name__ == "__main__":
    sys.exit(main([each for each in sys.argv[1:] if each != "--check"]))
