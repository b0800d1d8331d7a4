"""Batches: one reviewed plan over many rows. Here, what goes in and what comes out, which knows no engine.

a file, a query, an iterator --sources--> SourceRow --fitting--> Row (inputs, digest)  --> the engine
                                              |
                                              +--> RowFinding, the row is set aside
the engine --> RowResult --outputs--> results (JSON Lines, CSV), failures that can be fed back
"""
