"""The syntax of specs: text to tree (`parse`), tree to text (`pretty`), a tree printed (`dump`)."""
