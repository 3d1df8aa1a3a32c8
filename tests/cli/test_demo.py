"""`penstock demo` in a short form."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import Commands


# A Postgres is made and three workers are started: a slow machine has its time.
@pytest.mark.timeout(300)
def test_demo_ends_every_job_despite_a_killed_worker(bare: Commands) -> None:
    shown = bare.run("demo", "--jobs", "100", "--json")
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert (found["enqueued"], found["ended"], found["lost"]) == (100, 100, 0)
    assert found["as_expected"] is True
    assert found["completed"] + found["failed"] == 100
    assert found["failed"] == 1
    assert found["retries"] > 0
    assert found["put_back"] > 0
    assert found["rescued"] >= 1
    assert "was killed by SIGKILL" in shown.stderr
    assert "was rescued after" in shown.stderr
    picture = ElementTree.parse(Path(bare.folder, found["picture"])).getroot()
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
