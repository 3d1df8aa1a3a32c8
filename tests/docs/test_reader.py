"""The reader of the pages believes nothing: what is not so, and what nobody tried, is found."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.docs.page import Page

Follow = Callable[[Page], Awaitable[None]]

RIGHT = """
<!-- before:
start = 40
-->

```python
# shop/jobs.py
from penstock import Penstock

app = Penstock()


@app.task
async def add(left: int, right: int) -> int:
    return left + right
```

Later blocks import it, and know what earlier ones made.

```python
from shop.jobs import add, app

start + 2  # → 42
await app.enqueue(add, start, 2)  # → Enqueued(id='…', duplicate=False)
await app.wait("0")  # → raises JobNotFound
print("enqueued")
```

```text
enqueued
```

```console
$ penstock work shop.jobs --drain
1 completed in … s.
$ python -c 'raise SystemExit(3)'   # exit code 3
$ penstock work shop.jobs
… Worker … serves default.
…
^C
… Received SIGINT: the worker stops. A second signal hurries the stop.
…
… Worker … has stopped: …
```

```sql
SELECT task, result FROM penstock.job_all;
```

```text
     task      | result
---------------+--------
 shop.jobs.add | 42
(1 row)
```

<!-- not run: a manifest -->
```yaml
kind: Job
```
"""

WRONG = {
    "another value": ("```python\n1 + 1  # → 3\n```", "shows what is not so"),
    "another output": ("```python\nprint(2)\n```\n```text\n3\n```", "-3\n+2"),
    "no error": ("```python\nint('1')  # → raises ValueError\n```", "shows what is not so"),
    "another error": ("```python\nint('x')  # → raises KeyError\n```", "shows what is not so"),
    "an arrow inside": ("```python\nif 1:\n    2  # → 3\n    3\n```", "shows what is not so"),
    "an arrow astray": ("```python\none = 1  # → 1\n```", "an arrow stands behind"),
    "output not shown": ("```python\nprint(2)\n```", "the page does not show what this prints"),
    "text from nowhere": ("```text\n3\n```\n```text\n3\n```", "nothing before it says this"),
    "a language not run": ("```yaml\nkind: Job\n```", "no test runs this yaml block"),
    "no language": ("```\nmake demo\n```", "no test runs this  block"),
    "a file nobody uses": ("```python\n# a.py\n1\n```", "nothing on the page uses a.py"),
    "a failing command": ("```console\n$ false\n```", "false ended with 1"),
    "a wrong answer": ("```console\n$ echo 2\n3\n```", "-3\n+2"),
    "no command": ("```console\n2\n```", "a console block begins with"),
    "a worker that ends": (
        "```console\n$ penstock work nowhere\n… serves …\n```",
        "There is no module nowhere",
    ),
    "wrong SQL": ("```sql\nSELECT nothing;\n```", "does not exist"),
}


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Page]:
    def read(text: str) -> Page:
        path = tmp_path / "guide.md"
        path.write_text(text)
        return Page.read(path)

    return read


async def test_a_page_that_is_right_is_followed_to_its_end(
    read: Callable[[str], Page], follow: Follow
) -> None:
    await follow(read(RIGHT))


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_not_so_is_found(
    name: str, read: Callable[[str], Page], follow: Follow
) -> None:
    text, complaint = WRONG[name]
    with pytest.raises(AssertionError) as refused:
        await follow(read(text))
    assert complaint in str(refused.value)


def test_a_reason_is_part_of_the_mark(read: Callable[[str], Page]) -> None:
    marked = "<!-- not run: a manifest -->\n```yaml\nkind: Job\n```\n"
    unmarked = "<!-- not run: -->\n```yaml\nkind: Job\n```\n"
    assert [block.not_run for block in read(marked + unmarked).blocks] == ["a manifest", None]
