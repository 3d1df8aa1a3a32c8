"""Find the app that a command names: `shop.jobs` or `shop.jobs:app`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from penstock.app.app import Penstock
from penstock.cli.errors import CommandError


def find_app(target: str) -> Penstock:
    """Import the module and return its app: the one that is named, else the only one there is."""
    module_name, _, attribute = target.partition(":")
    module = _import(module_name)
    if attribute:
        return _named(module, attribute)
    apps = {name: value for name, value in vars(module).items() if isinstance(value, Penstock)}
    different = {id(value): name for name, value in apps.items()}
    if len(different) > 1:
        choices = " or ".join(f"{module_name}:{name}" for name in sorted(different.values()))
        raise CommandError(f"The module {module_name} has several apps. Name one: {choices}.")
    if not apps:
        raise CommandError(
            f"The module {module_name} has no Penstock app at its top level. "
            f"Make one there (app = Penstock()), or name where it is: {module_name}:name."
        )
    return next(iter(apps.values()))


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if not name or name.endswith(".py") or "/" in name:
        raise CommandError(
            f"{name!r} is no name of a module. Write it as Python imports it: shop.jobs for "
            "the file shop/jobs.py in the current folder."
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only if the module itself is missing: what it fails to import is another matter.
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise CommandError(
                f"There is no module {error.name}, in the current folder ({here}) or installed. "
                "Run the command where your code is, or set PYTHONPATH."
            ) from error
        raise CommandError(_broken(name, error)) from error
    except Exception as error:
        raise CommandError(_broken(name, error)) from error


def _broken(name: str, error: Exception) -> str:
    told = f"{type(error).__name__}: {error}".rstrip(".")
    return f"The module {name} could not be imported: {told}. PENSTOCK_TRACEBACK=1 shows where."


def _named(module: ModuleType, attribute: str) -> Penstock:
    if not hasattr(module, attribute):
        raise CommandError(f"The module {module.__name__} has nothing called {attribute}.")
    found = getattr(module, attribute)
    if not isinstance(found, Penstock):
        raise CommandError(
            f"{module.__name__}:{attribute} is no Penstock app but of type {type(found).__name__}."
        )
    return found
