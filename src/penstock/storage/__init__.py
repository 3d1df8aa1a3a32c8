"""Files stored by what is in them, in a folder or in a bucket, and links that open one."""
