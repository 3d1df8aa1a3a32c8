SELECT :"schema".sweep_chunks_v1($1)
