// The Mandelbrot set in n by n points; blocks of 16 by 16.
template <typename T>
__device__ void escape(int* z, int n, int limit) {
    int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y, k = 0;
    T a = T(-2) + T(3) * c / n, b = T(-1.5) + T(3) * r / n, x = 0, y = 0;
    for (; k < limit && x * x + y * y < T(4); ++k) {
        T next = x * x - y * y + a;
        y = T(2) * x * y + b;
        x = next;
    }
    z[r * n + c] = k;
}

extern "C" __global__ void mandel_float(int* z, int n, int limit) { escape<float>(z, n, limit); }

extern "C" __global__ void mandel_double(int* z, int n, int limit) { escape<double>(z, n, limit); }
