"""What is stored of knowledge: the only modules that execute its SQL."""
