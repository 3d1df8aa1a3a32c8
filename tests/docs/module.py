"""Runs the Python of a page, block after block, in one module."""

import ast
import inspect
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import CodeType, ModuleType

from penstock import Penstock
from tests.docs.page import Block
from tests.docs.said import expect

NAME = "page"
ARROW = re.compile(r"# → (.+)$", re.MULTILINE)
RAISES = "raises "


class PageModule:
    """The module that a page's Python makes: a real one, so that annotations find their names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._module = sys.modules[NAME] = ModuleType(NAME)

    async def run(self, block: Block) -> str:
        """Run a block and check its arrows; what it printed."""
        arrows = Arrows(block)
        tree = ast.fix_missing_locations(arrows.visit(ast.parse(block.text, str(block.page))))
        # So that a traceback points into the page.
        ast.increment_lineno(tree, block.line - 1)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: CodeType = compile(tree, str(block.page), "exec", flags)
        names = vars(self._module)
        names |= {"__shows__": arrows.shows, "__raises__": arrows.raises}
        with redirect_stdout(io.StringIO()) as printed:
            value = eval(code, names)
            if code.co_flags & inspect.CO_COROUTINE:
                await value
        return printed.getvalue()

    async def close(self) -> None:
        """Let go of what the page's apps hold, and of its modules: the next page has its own."""
        for name, module in tuple(self._modules()):
            for value in tuple(vars(module).values()):
                if isinstance(value, Penstock):
                    await value.close()
            del sys.modules[name]

    def _modules(self) -> Iterator[tuple[str, ModuleType]]:
        for name, module in sys.modules.items():
            # A folder without __init__.py is a module too, though it has no file.
            places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
            is_here = any(self._folder in Path(place).parents for place in places if place)
            if module is self._module or is_here:
                yield name, module


class Arrows(ast.NodeTransformer):
    """Puts checks where a block says `expression  # → value` or `expression  # → raises Error`."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._shown = {
            number: found[1]
            for number, line in enumerate(block.text.splitlines(), 1)
            if (found := ARROW.search(line))
        }
        self._placed: set[int] = set()

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        missed = self._shown.keys() - self._placed
        assert not missed, f"{self._block.place}: an arrow stands behind an expression of its own"
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        number = node.end_lineno or node.lineno
        shown = self._shown.get(number)
        if shown is None:
            return node
        self._placed.add(number)
        if shown.startswith(RAISES):
            [guard] = ast.parse(f"with __raises__({number}): 0").body
            assert isinstance(guard, ast.With)
            guard.body = [node]
            return guard
        node.value = ast.Call(
            ast.Name("__shows__", ast.Load()), [ast.Constant(number), node.value], []
        )
        return node

    def shows(self, number: int, value: object) -> None:
        expect(self._place(number), repr(value), self._shown[number])

    @contextmanager
    def raises(self, number: int) -> Iterator[None]:
        said = "raises nothing"
        try:
            yield
        except Exception as error:
            said = f"{RAISES}{type(error).__name__}"
        expect(self._place(number), said, self._shown[number])

    def _place(self, number: int) -> str:
        return f"{self._block.page.name}:{self._block.line + number - 1}"
