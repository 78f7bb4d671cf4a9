// 64 steps with numbers of 16 bits: one in each thread, or two.
__device__ unsigned short step(unsigned short a, unsigned short b) {
    asm("fma.rn.f16 %0, %0, %1, %1;" : "+h"(a) : "h"(b));
    return a;
}

__device__ unsigned step(unsigned a, unsigned b) {
    asm("fma.rn.f16x2 %0, %0, %1, %1;" : "+r"(a) : "r"(b));
    return a;
}

template <typename T>
__device__ void steps(const T* x, T* z) {
    int i = blockIdx.x * 256 + threadIdx.x;
    T value = x[i], own = value;
    for (int k = 0; k < 64; ++k) value = step(value, own);
    z[i] = value;
}

extern "C" __global__ void half_single(const unsigned short* x, unsigned short* z) { steps(x, z); }

extern "C" __global__ void half_pair(const unsigned* x, unsigned* z) { steps(x, z); }
