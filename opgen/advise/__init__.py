"""Whether a kernel is worth it: work counted from the typed graph, times predicted from a few measured rates."""
