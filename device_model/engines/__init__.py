"""What runs operations: engines for copies (serial) and host functions (host_thread), AI cores (dispatcher), pageable
memory (staging), and threads for the bodies of large kernels (workers). They import streams and what is below them.
"""

from device_model.compiled import put_in_front as _put_in_front

_put_in_front(__name__, __path__)
