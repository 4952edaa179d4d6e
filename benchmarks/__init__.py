"""Benchmarks: `python -m benchmarks NAME [--json FILE] [options]`."""
