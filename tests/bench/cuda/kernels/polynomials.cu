// A polynomial with 32 steps, in two precisions.
template <typename T>
__device__ void horner(const T* x, T* z) {
    int i = blockIdx.x * 256 + threadIdx.x;
    T at = x[i] * T(0.25), sum = 1;
    for (int k = 0; k < 32; ++k) sum = fma(sum, at, T(1) / (k + 1));
    z[i] = sum;
}

extern "C" __global__ void poly_float(const float* x, float* z) { horner(x, z); }

extern "C" __global__ void poly_double(const double* x, double* z) { horner(x, z); }
