"""The simulated device: streams, engines, memory and AI cores in integer nanoseconds; no asyncio, no wall clock."""
