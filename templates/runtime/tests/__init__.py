"""Property tests of the package's ops, each in a file of its own."""
