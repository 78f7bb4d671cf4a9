// samples/15_copy_pipeline.py in CUDA C: a block copies tiles into shared memory with 1 to 4 stages, and computes.
//     nvcc -arch=sm_90 -O3 copy_pipeline.cu -o copy_pipeline && ./copy_pipeline
#include "sample.h"

constexpr int kThreads = 128, kTiles = 32, kTile = 16 * kThreads;  // numbers

template <int STAGES>
__global__ void __launch_bounds__(kThreads) copied(const float* x, float* y, int work, Spans spans) {
    __shared__ __align__(16) float s[STAGES][kTile];
    begin_span(spans);
#pragma unroll 1
    for (int i = 0; i < kTiles + STAGES - 1; i++) {
        if (i < kTiles) {
            unsigned to = __cvta_generic_to_shared(s[i % STAGES]);
            const float* from = x + i * kTile;
#pragma unroll 1
            for (int number = 4 * threadIdx.x; number < kTile; number += 4 * blockDim.x)  // as memcpy_async of a group
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 4 * number), "l"(from + number)
                             : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (i >= STAGES - 1) {
            int tile = i - STAGES + 1;
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
            __syncthreads();
            float value = s[tile % STAGES][threadIdx.x];
            for (int k = 0; k < work; k++) value = fmaf(value, 0.5f, 1);
            y[tile * kThreads + threadIdx.x] = value;
            __syncthreads();
        }
    }
    end_span(spans);
}

int main() {
    std::vector<float> values(kTiles * kTile);
    for (size_t i = 0; i < values.size(); i++) values[i] = number(i);
    float *x = device_of(values), *y = device_of(std::vector<float>(kTiles * kThreads));
    void (*kernels[])(const float*, float*, int, Spans) = {copied<1>, copied<2>, copied<3>, copied<4>};
    for (int work : {0, 64, 256})
        for (int stages : {1, 2, 3, 4}) {
            printf("{\"sample\": \"copy pipeline\", \"stages\": %d, \"work\": %d, ", stages, work);
            cudaMemset(y, 255, kTiles * kThreads * 4);
            time_launches(kThreads / 32, 1, [&](Spans spans) { kernels[stages - 1]<<<1, kThreads>>>(x, y, work, spans); });
            printf("\"digest\": \"%016lx\"}\n", digest(host_of((uint32_t*)y, kTiles * kThreads)));
        }
    fprintf(stderr, "%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
