"""The runtime behind other interfaces: `acl`, the vendor's Python binding, and the driver of CUDA."""
