"""All that a schema holds but rows, as text: the same on every server, whoever owns it."""

import difflib
import re

import asyncpg

# Each gives lines, sorted here and not by the server. Partitions are named after dates: left out.
PARTS = {
    "functions": """
        SELECT pg_get_functiondef(oid) FROM pg_proc
         WHERE pronamespace = $1::regnamespace AND prokind IN ('f', 'p')""",
    "rights to functions": """
        SELECT format('%s: %s', oid::regprocedure,
               coalesce(array_to_string(proacl, ' '), 'everybody may call it'))
          FROM pg_proc WHERE pronamespace = $1::regnamespace""",
    "types": """
        SELECT format('%s: %s', typname,
               (SELECT string_agg(enumlabel, ' ' ORDER BY enumsortorder)
                  FROM pg_enum WHERE enumtypid = type.oid))
          FROM pg_type AS type
         WHERE typnamespace = $1::regnamespace AND typtype IN ('e', 'd', 'r')""",
    "tables": """
        SELECT format('%s %s: persistence %s, security %s %s, partitions %s, options %s, rights %s',
               relkind, relname, relpersistence, relrowsecurity, relforcerowsecurity,
               coalesce(pg_get_partkeydef(oid), 'none'),
               coalesce(array_to_string(reloptions, ' '), 'none'),
               coalesce(array_to_string(relacl, ' '), 'of the owner'))
          FROM pg_class
         WHERE relnamespace = $1::regnamespace AND NOT relispartition
           AND relkind IN ('r', 'p', 'v', 'm', 'S', 'c', 'f')""",
    "views": """
        SELECT format('%s: %s', relname, pg_get_viewdef(oid, true)) FROM pg_class
         WHERE relnamespace = $1::regnamespace AND relkind IN ('v', 'm')""",
    "columns": """
        SELECT format('%s %s %s: %s%s%s%s%s, storage %s, statistics %s, options %s, rights %s',
               relname, lpad(attnum::text, 3), attname, format_type(atttypid, atttypmod),
               CASE WHEN attnotnull THEN ' not null' END,
               ' default ' || pg_get_expr(adbin, adrelid),
               ' identity ' || nullif(attidentity::text, ''),
               ' generated ' || nullif(attgenerated::text, ''),
               attstorage, coalesce(nullif(attstattarget, -1)::text, 'usual'),
               coalesce(attoptions::text, 'none'), coalesce(attacl::text, 'of the table'))
          FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
          LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
         WHERE relnamespace = $1::regnamespace AND NOT relispartition AND attnum > 0
           AND NOT attisdropped AND relkind IN ('r', 'p', 'v', 'm', 'c', 'f')""",
    "constraints": """
        SELECT format('%s %s: %s', relname, conname, pg_get_constraintdef(pg_constraint.oid))
          FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid
         WHERE relnamespace = $1::regnamespace AND NOT relispartition AND contype <> 'n'""",
    "indexes": """
        SELECT format('%s%s', pg_get_indexdef(index.oid),
               CASE WHEN index.reloptions IS NOT NULL THEN ' ' || index.reloptions::text END)
          FROM pg_class AS index JOIN pg_index ON indexrelid = index.oid
          JOIN pg_class AS of ON of.oid = indrelid
         WHERE index.relnamespace = $1::regnamespace AND NOT of.relispartition""",
    "triggers": """
        SELECT pg_get_triggerdef(pg_trigger.oid)
          FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
         WHERE relnamespace = $1::regnamespace AND NOT tgisinternal AND NOT relispartition""",
    "policies": """
        SELECT format('%s %s: %s %s to %s using %s check %s', tablename, policyname, permissive,
               cmd, roles, coalesce(qual, 'none'), coalesce(with_check, 'none'))
          FROM pg_policies WHERE schemaname = $1""",
    "sequences": """
        SELECT format('%s: %s start %s min %s max %s by %s cache %s cycle %s', relname,
               format_type(seqtypid, NULL), seqstart, seqmin, seqmax, seqincrement, seqcache,
               seqcycle)
          FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid
         WHERE relnamespace = $1::regnamespace""",
    "statistics": """
        SELECT pg_get_statisticsobjdef(oid) FROM pg_statistic_ext
         WHERE stxnamespace = $1::regnamespace""",
    "comments": """
        SELECT format('%s: %s', pg_describe_object(classoid, objoid, objsubid), description)
          FROM pg_description
          LEFT JOIN pg_class ON pg_class.oid = objoid AND classoid = 'pg_class'::regclass
          LEFT JOIN pg_proc ON pg_proc.oid = objoid AND classoid = 'pg_proc'::regclass
         WHERE $1::regnamespace IN (pronamespace, relnamespace)
           AND relispartition IS NOT TRUE""",
    "schema": """
        SELECT format('rights: %s', coalesce(nspacl::text, 'of the owner'))
          FROM pg_namespace WHERE nspname = $1
        UNION ALL
        SELECT format('usual rights: %s %s', defaclobjtype, defaclacl)
          FROM pg_default_acl JOIN pg_namespace ON pg_namespace.oid = defaclnamespace
         WHERE nspname = $1""",
}
# There is one more from Postgres 17 on.
EVERY_RIGHT = re.compile(r"owner=arwdDxtm?/")
OWNER = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = $1"


async def catalogue(connection: asyncpg.Connection, schema: str) -> dict[str, list[str]]:
    """The lines of each part, sorted; the owner's name is `owner`."""
    owner = re.escape(await connection.fetchval(OWNER, schema))
    # In a list of rights: `grantee=what/who granted it`.
    grants = re.compile(rf"(?<![\w\"]){owner}(?==)|(?<=/){owner}(?!\w)")
    found: dict[str, list[str]] = {}
    for part, query in PARTS.items():
        rows = await connection.fetch(query, schema)
        lines = (grants.sub("owner", row[0]) for row in rows)
        found[part] = sorted(EVERY_RIGHT.sub("owner=all/", line) for line in lines)
    return found


def text(parts: dict[str, list[str]]) -> str:
    """One document of all parts."""
    return "".join(
        f"== {part}\n" + "".join(f"{line}\n" for line in lines) for part, lines in parts.items()
    )


def added(before: dict[str, list[str]], after: dict[str, list[str]]) -> str:
    """What is new, with a plus, and what is gone, with a minus, after what it is a part of."""
    changes = {part: _changed(before[part], lines) for part, lines in after.items()}
    return text(changes)


def _changed(before: list[str], after: list[str]) -> list[str]:
    olds = {one.partition("\n")[0]: one for one in before}
    news = {one.partition("\n")[0]: one for one in after}
    lines: list[str] = []
    for head in sorted(olds.keys() | news.keys()):
        old, new = olds.get(head, "").splitlines(), news.get(head, "").splitlines()
        changed = [line for line in difflib.ndiff(old, new) if line[0] in "+-"]
        if changed and old and new:
            lines.append(f"  {head}")
        lines += changed
    return lines
