"""What runs in the processes of one side: the measured code, and what measures it from inside."""
