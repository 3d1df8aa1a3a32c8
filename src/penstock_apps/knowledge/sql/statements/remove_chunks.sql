-- Remove some chunks of an edition; how many.
SELECT :"schema".remove_chunks_v1($1, $2, $3)
