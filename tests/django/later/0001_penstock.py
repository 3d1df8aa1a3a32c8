from typing import Any, ClassVar

from django.db import migrations

from penstock.integrations.django.schema import MigratePenstock


class Migration(migrations.Migration):
    dependencies: ClassVar[list[Any]] = []
    operations: ClassVar[list[Any]] = [MigratePenstock(1)]
