SELECT :"schema".describe_index_v1($1, 'CONCURRENTLY')
