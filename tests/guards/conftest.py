"""Databases whose whole schema is compared: with knowledge, and under row level security."""

from tests.fixtures.database import roles as roles
from tests.knowledge.conftest import knowledge_database as knowledge_database
from tests.knowledge.conftest import knowledge_template as knowledge_template
