DROP INDEX CONCURRENTLY IF EXISTS :"schema".chunk_edition_$1
