"""Read and write the tables of knowledge. Only these modules execute its SQL."""
