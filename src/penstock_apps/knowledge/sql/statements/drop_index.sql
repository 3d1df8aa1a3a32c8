SELECT :"schema".drop_index_v1($1)
