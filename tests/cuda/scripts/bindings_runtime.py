"""cuda.bindings.runtime: memory of the device, a copy there and back, an error that is taken, a property."""

from cuda.bindings import runtime

codes = runtime.cudaError_t
kinds = runtime.cudaMemcpyKind


def checked(answer):
    code, *values = answer
    assert code == codes.cudaSuccess, code
    return values[0] if values else None


data, back = bytearray(range(256)), bytearray(256)
stream = checked(runtime.cudaStreamCreate())
address = checked(runtime.cudaMalloc(256))
checked(runtime.cudaMemcpyAsync(address, data, 256, kinds.cudaMemcpyHostToDevice, stream))
checked(runtime.cudaMemcpyAsync(back, address, 256, kinds.cudaMemcpyDeviceToHost, stream))
checked(runtime.cudaStreamSynchronize(stream))
extent = runtime.make_cudaExtent(64, 2, 2)
planes = checked(runtime.cudaMalloc3D(extent))
checked(runtime.cudaMemset3D(planes, 7, extent))
checked(runtime.cudaFree(planes.ptr))
checked(runtime.cudaFree(address))
checked(runtime.cudaStreamDestroy(stream))
properties = checked(runtime.cudaGetDeviceProperties(0))
assert (properties.major, properties.warpSize, properties.memoryPoolsSupported) == (9, 32, 1)
print("right" if back == data else "wrong")
