"""What stands around the blocks of code in README and docs, so that they run: tests/test_code_blocks.py."""
