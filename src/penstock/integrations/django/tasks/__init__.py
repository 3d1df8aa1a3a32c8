"""A backend for django.tasks, which Django has since 6.0.

TASKS = {"default": {"BACKEND": "penstock.integrations.django.tasks.PenstockBackend"}}
"""

from penstock.integrations.django.tasks.backend import PenstockBackend, PenstockTask

__all__ = ["PenstockBackend", "PenstockTask"]
