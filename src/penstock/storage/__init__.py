"""Store files under the hash of their content, in a folder or a bucket, and sign links to them."""
