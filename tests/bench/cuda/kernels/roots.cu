// Vectors of three made one long: by the reciprocal root, or by a root and divisions.
extern "C" __global__ void normalize_rsqrt(const float* x, float* z, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    float a = x[i], b = x[i + n], c = x[i + 2 * n], inverse = rsqrtf(a * a + b * b + c * c);
    z[i] = a * inverse, z[i + n] = b * inverse, z[i + 2 * n] = c * inverse;
}

extern "C" __global__ void normalize_divide(const float* x, float* z, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    float a = x[i], b = x[i + n], c = x[i + 2 * n], length = sqrtf(a * a + b * b + c * c);
    z[i] = a / length, z[i + n] = b / length, z[i + 2 * n] = c / length;
}
