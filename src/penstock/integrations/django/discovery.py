"""Imports the modules in which the project's tasks are written."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from django.apps import apps
from django.utils.module_loading import module_has_submodule

OWN_NAME = "penstock.integrations.django"


def import_tasks(modules: Iterable[str]) -> None:
    """Import the modules of these names from every installed app that has them."""
    for config in apps.get_app_configs():
        for module in modules:
            if config.name != OWN_NAME and module_has_submodule(config.module, module):
                import_module(f"{config.name}.{module}")
