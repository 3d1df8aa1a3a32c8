"""What every test can use; CONTRIBUTING.md has the list."""

pytest_plugins = [
    "pytester",
    "tests.fixtures.environment",
    "tests.fixtures.leftovers",
    "tests.fixtures.memory",
    "tests.fixtures.pgbouncer",
    "tests.fixtures.server",
    "tests.fixtures.folders",
    "tests.fixtures.database",
    "tests.fixtures.proxy",
]
