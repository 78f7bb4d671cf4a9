"""What runs operations: engines for copies (serial) and host functions (host_thread), AI cores (dispatcher), pageable
memory (staging), and threads for the bodies of large kernels (workers). They import streams and what is below them.
"""
