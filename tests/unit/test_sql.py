"""Statements that stand below their names in files, or are derived from a function's signature."""

from pathlib import Path

import pytest

from penstock.sql import call, read_named
from penstock.sql.header import read_header


def written(folder: Path, **texts: str) -> Path:
    for file, text in texts.items():
        (folder / f"{file}.sql").write_text(text, "utf-8")
    return folder


def test_statements_are_found_by_name_in_any_file(tmp_path: Path) -> None:
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
    with pytest.raises(ValueError, match=r"jobs\.sql must begin with a line `-- name: …`"):
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
    with pytest.raises(
        ValueError, match=r"job_columns in .* must be both defined and used by a statement"
    ):
        read_named(written(tmp_path, jobs=text))


@pytest.mark.parametrize(
    ("signature", "statement"),
    [
        ("work_v1() RETURNS bigint", 'SELECT :"schema".work_v1();'),
        (
            "work_v2(p_ids bigint[], p_now timestamptz DEFAULT NULL) RETURNS void",
            'SELECT :"schema".work_v2(p_ids => $1::bigint[]);',
        ),
        (
            "work_v1(\n    p_ttl double precision DEFAULT 60, p_states text[] DEFAULT '{a,b}',\n"
            "    p_now timestamptz DEFAULT NULL, p_info jsonb DEFAULT '{}'\n"
            ") RETURNS TABLE (id bigint, waited double precision,\n    keys text[])",
            'SELECT id, waited, keys FROM :"schema".work_v1(p_ttl => $1::double precision, '
            "p_states => $2::text[], p_info => $3::text::jsonb);",
        ),
        (
            "work_v1(\n    p_id   bigint,\n    p_ids  bigint[],  -- (p_more text)\n"
            "    OUT answer text, OUT added integer\n)",
            'SELECT answer, added FROM :"schema".work_v1(p_id => $1::bigint, '
            "p_ids => $2::bigint[]);",
        ),
        (
            'work_v1(p_id bigint) RETURNS TABLE ("position" integer, page integer)',
            'SELECT "position", page FROM :"schema".work_v1(p_id => $1::bigint);',
        ),
    ],
)
def test_a_call_names_all_parameters_but_the_time(signature: str, statement: str) -> None:
    text = f'-- Does some work_v1.\nCREATE FUNCTION :"schema".{signature}\nLANGUAGE sql VOLATILE\n'
    assert read_header(text).call() == statement


def test_a_call_can_leave_the_types_to_postgres() -> None:
    text = 'CREATE FUNCTION :"schema".keep_v1(p_vectors halfvec[]) RETURNS void\nLANGUAGE sql\n'
    assert read_header(text).call(casts=False) == 'SELECT :"schema".keep_v1(p_vectors => $1);'


def test_a_function_is_called_in_its_newest_version() -> None:
    assert call("close_lease", 'my "jobs"') == (
        'SELECT "my ""jobs""".close_lease_v1(p_lease => $1::bigint);'
    )
