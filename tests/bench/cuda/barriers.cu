// How an H200 answers at barriers, as rows of JSON: cycles of one round, a mean of 64, by the warps of a block.
//     nvcc -arch=sm_90 -O3 barriers.cu -o barriers && ./barriers
#include <cstdio>
#include <initializer_list>

__device__ void arrive(unsigned barrier) {
    asm volatile("{.reg .b64 state;\n mbarrier.arrive.shared.b64 state, [%0];}" ::"r"(barrier) : "memory");
}

__device__ void wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{.reg .pred done;\n again:\n mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n @!done bra again;}" ::"r"(
            barrier),
        "r"(parity)
        : "memory");
}

enum Kind { kMbarrier, kNamed, kSyncthreads };
const char* names[] = {"mbarrier", "bar.sync", "syncthreads"};

template <Kind KIND>
__global__ void barriers(int* cycles) {
    __shared__ unsigned long long word;
    unsigned barrier = __cvta_generic_to_shared(&word);
    if (!threadIdx.x)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(blockDim.x) : "memory");
    int begin = 0, end = 0;
    for (int run = 0; run < 2; run++) {
        __syncthreads();
        begin = clock();
#pragma unroll 2
        for (int i = 0; i < 64; i++) {
            if (KIND == kMbarrier) arrive(barrier), wait(barrier, i & 1);
            if (KIND == kNamed) asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x) : "memory");
            if (KIND == kSyncthreads) __syncthreads();
        }
        end = clock();
    }
    if (!threadIdx.x) *cycles = end - begin;
}

template <Kind KIND>
void rounds() {
    int *on_card, cycles;
    cudaMalloc(&on_card, sizeof cycles);
    for (int threads = 32; threads <= 1024; threads *= 2) {
        barriers<KIND><<<1, threads>>>(on_card);
        cudaMemcpy(&cycles, on_card, sizeof cycles, cudaMemcpyDefault);
        printf("{\"kind\": \"%s\", \"threads\": %d, \"cycles\": %.2f}\n", names[KIND], threads, cycles / 64.);
    }
}

int main() {
    rounds<kMbarrier>(), rounds<kNamed>(), rounds<kSyncthreads>();
    fprintf(stderr, "%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
