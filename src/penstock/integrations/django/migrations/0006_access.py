from typing import Any, ClassVar

from django.db import migrations

from penstock.integrations.django.schema import MigratePenstock


class Migration(migrations.Migration):
    dependencies: ClassVar[list[Any]] = [("penstock", "0005_steps")]
    operations: ClassVar[list[Any]] = [MigratePenstock(6)]
