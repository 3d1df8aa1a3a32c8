"""Statements that stand below their names in files of a folder."""

from pathlib import Path

import pytest

from penstock.sql import read_named


def written(folder: Path, **texts: str) -> Path:
    for file, text in texts.items():
        (folder / f"{file}.sql").write_text(text, "utf-8")
    return folder


def test_statements_are_found_by_name_whatever_file_they_stand_in(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        jobs="-- name: get\n-- A job.\nSELECT 1;\n\n-- name: list\nSELECT 2\n  WHERE true;\n",
        queues="-- name: pause\nSELECT 3;\n",
    )
    assert read_named(folder) == {
        "get": "-- A job.\nSELECT 1;\n",
        "list": "SELECT 2\n  WHERE true;\n",
        "pause": "SELECT 3;\n",
    }


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, jobs="-- name: get\nSELECT 1;\n", queues="-- name: get\nSELECT 2;\n")
    with pytest.raises(ValueError, match=r"Two statements in .* are named get"):
        read_named(folder)


@pytest.mark.parametrize("text", ["", "SELECT 1;\n", "-- A job.\n-- name: get\nSELECT 1;\n"])
def test_a_file_that_begins_without_a_name_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"jobs\.sql does not begin with a line `-- name: …`"):
        read_named(written(tmp_path, jobs=text))


def test_a_list_of_columns_stands_in_statements_by_its_name(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        jobs="-- name: job_columns\n-- What is shown.\na.id,\na.task\n\n"
        "-- name: get\nSELECT :job_columns FROM job AS a;\n",
        dead="-- name: list_dead\nSELECT :job_columns FROM dead AS a;\n",
    )
    assert read_named(folder) == {
        "get": "SELECT a.id,\na.task FROM job AS a;\n",
        "list_dead": "SELECT a.id,\na.task FROM dead AS a;\n",
    }


@pytest.mark.parametrize(
    "text",
    ["-- name: get\nSELECT :job_columns FROM job AS a;\n", "-- name: job_columns\na.id, a.task\n"],
)
def test_a_list_without_a_text_or_a_statement_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"job_columns in .* needs a text and a statement"):
        read_named(written(tmp_path, jobs=text))
