"""The expression language: a total subset of Python expressions, parsed against a whitelist and interpreted."""
