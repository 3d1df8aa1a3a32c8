from typing import Any, ClassVar

from django.db import migrations

from penstock.integrations.django.schema import MigratePenstock


class Migration(migrations.Migration):
    dependencies: ClassVar[list[Any]] = [("penstock", "0001_penstock")]
    operations: ClassVar[list[Any]] = [MigratePenstock(2)]
