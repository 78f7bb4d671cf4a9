"""What `import ais_bench.infer` finds: see `interface`."""
