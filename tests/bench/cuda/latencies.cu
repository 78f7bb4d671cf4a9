// Cycles of one instruction in a chain of 64, by the number of warps of a block, on an H200:
//     nvcc -arch=sm_90 -O3 latencies.cu -o latencies && ./latencies
// It printed, for 1, 4, 8 and 16 warps:
//     ex2    16.78  16.78  16.84  32.27
//     shfl   23.67  23.69  23.67  23.67
//     mma    23.94  23.94  23.95  24.28
//     mad     3.98   3.98   3.98   8.22
//     mad and xor, in turn: 9.98 9.98 10.09 10.39 for both
//     cp.async without a loop, of 16 bytes: 5.78 for one warp, 21.23 for four
#include <cstdio>
#include <initializer_list>

enum Kind { kEx2, kShuffle, kMma, kMad, kMadXor, kCopy };
constexpr int kChain = 64, kShared = 140000;
extern __shared__ char shared[];

template <Kind KIND>
__global__ void chain(const char* data, int* out, int y) {
    int x = threadIdx.x, cycles = 0;
    float f = x, sum[4] = {};
    for (int run = 0; run < 3; run++) {  // the first ones warm the instructions up
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        int begin = (int)clock();
#pragma unroll
        for (int i = 0; i < kChain; i++) {
            if (KIND == kEx2) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(f));
            if (KIND == kShuffle) x = __shfl_xor_sync(~0u, x, 1);
            if (KIND == kMma)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, "
                             "{%4, %4}, {%0, %1, %2, %3};"
                             : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                             : "r"(y));
            if (KIND == kMad) asm volatile("mad.lo.s32 %0, %0, %1, %1;" : "+r"(x) : "r"(y));
            if (KIND == kMadXor) asm volatile("mad.lo.s32 %0, %0, %1, %1;\n xor.b32 %0, %0, %1;" : "+r"(x) : "r"(y));
            if (KIND == kCopy)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                                 (unsigned)__cvta_generic_to_shared(shared + i * 2048 + threadIdx.x * 16 % 2048)),
                             "l"(data + i * 4096 + threadIdx.x * 16)
                             : "memory");
        }
        cycles = (int)clock() - begin;
    }
    out[threadIdx.x + 1] = x + f + sum[0] + sum[1] + sum[2] + sum[3];
    if (!threadIdx.x) out[0] = cycles;
}

template <Kind KIND>
void print(const char* name, const char* data, int* out) {
    cudaFuncSetAttribute(chain<KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    printf("%s", name);
    for (int warps : {1, 4, 8, 16}) {
        int cycles;
        chain<KIND><<<1, warps * 32, kShared>>>(data, out, 0);
        cudaMemcpy(&cycles, out, sizeof cycles, cudaMemcpyDefault);
        printf(" %.2f", cycles / double(kChain));
    }
    printf("\n");
}

int main() {
    char* data;
    int* out;
    cudaMalloc(&data, 1 << 20);
    cudaMalloc(&out, 1 << 16);
    print<kEx2>("ex2", data, out);
    print<kShuffle>("shfl", data, out);
    print<kMma>("mma", data, out);
    print<kMad>("mad", data, out);
    print<kMadXor>("mad and xor", data, out);
    print<kCopy>("cp.async", data, out);
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
