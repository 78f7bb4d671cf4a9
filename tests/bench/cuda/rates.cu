// How fast warps of an H200 issue instructions that cp_async.json and latencies.cu do not have: cycles for each of 32 in
// a row, which do not need each other, and the latency of one, by the number of warps of a block.
//     nvcc -arch=sm_90 -O3 rates.cu -o rates && ./rates
#include <cstdio>
#include <initializer_list>

enum Kind { kLoad4, kLoad16, kStore4, kStore16, kLds4, kLds16, kSts4, kSts16, kLdmatrix, kPack, kMax, kAdd, kFma, kExp, kXor, kShuffle, kLoop };
constexpr int kChain = 32;
extern __shared__ __align__(128) char shared[];

template <Kind KIND, bool IS_LAST>  // IS_LAST: time until the last result is there, too
__global__ void rate(char* data, float* out, int zero) {
    float f[4 * kChain], sum = 0;
    unsigned x[kChain];
    for (int i = 0; i < kChain; i++) f[i] = threadIdx.x + i, x[i] = threadIdx.x * i;
    int lane = threadIdx.x % 32, cycles = 0;
    char* at4 = data + threadIdx.x * 4;
    char* at16 = data + threadIdx.x * 16;
    unsigned near4 = (unsigned)__cvta_generic_to_shared(shared) + lane * 4, near16 = near4 + lane * 12;
    for (int run = 0; run < 3; run++) {
        __syncthreads();
        int begin = (int)clock();
#pragma unroll
        for (int i = 0; i < kChain; i++) {
            if (KIND == kLoad4) asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(f[i]) : "l"(at4 + i * 8192));
            if (KIND == kLoad16)
                asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(f[4 * i]), "=f"(f[4 * i + 1]), "=f"(f[4 * i + 2]), "=f"(f[4 * i + 3])
                             : "l"(at16 + i * 8192));
            if (KIND == kStore4) asm volatile("st.global.f32 [%0], %1;" ::"l"(at4 + i * 8192), "f"(f[i]));
            if (KIND == kStore16)
                asm volatile("st.global.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(at16 + i * 8192), "f"(f[i]));
            if (KIND == kLds4) asm volatile("ld.shared.f32 %0, [%1];" : "=f"(f[i]) : "r"(near4 + i * 128));
            if (KIND == kLds16)
                asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(f[4 * i]), "=f"(f[4 * i + 1]), "=f"(f[4 * i + 2]), "=f"(f[4 * i + 3])
                             : "r"(near16 + i * 512));
            if (KIND == kSts4) asm volatile("st.shared.f32 [%0], %1;" ::"r"(near4 + i * 128), "f"(f[i]));
            if (KIND == kSts16)
                asm volatile("st.shared.v4.f32 [%0], {%1, %1, %1, %1};" ::"r"(near16 + i * 512), "f"(f[i]));
            if (KIND == kLdmatrix)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=f"(f[4 * i]), "=f"(f[4 * i + 1]), "=f"(f[4 * i + 2]), "=f"(f[4 * i + 3])
                             : "r"(near16 + i * 512));
            if (KIND == kPack) asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x[i]) : "f"(f[i]), "f"(f[i + 1]));
            if (KIND == kMax) asm volatile("max.f32 %0, %0, %1;" : "+f"(f[i]) : "f"(f[kChain]));
            if (KIND == kAdd) asm volatile("add.f32 %0, %0, %1;" : "+f"(f[i]) : "f"(f[kChain]));
            if (KIND == kFma) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(f[i]) : "f"(f[kChain]));
            if (KIND == kExp) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(f[i]));
            if (KIND == kXor) asm volatile("xor.b32 %0, %0, %1;" : "+r"(x[i]) : "r"(zero));
            if (KIND == kShuffle) x[i] = __shfl_xor_sync(~0u, x[i], 1);
        }
        if (KIND == kLoop)
#pragma unroll 1
            for (int i = 0; i < kChain; i++) asm volatile("" ::: "memory");
        if (IS_LAST) {
            if (KIND < kStore4 || (KIND >= kLds4 && KIND < kSts4) || (KIND > kLdmatrix && KIND < kXor))
                asm volatile("add.f32 %0, %0, %1;" : "+f"(sum) : "f"(f[KIND == kLoad16 || KIND == kLds16 ? 4 * kChain - 1 : kChain - 1]));
            if (KIND == kPack || KIND >= kXor) asm volatile("xor.b32 %0, %0, %1;" : "+r"(x[0]) : "r"(x[kChain - 1]));
        }
        cycles = (int)clock() - begin;
    }
    for (int i = 0; i < kChain; i++) sum += f[i] + x[i] + f[4 * i + 3] + f[4 * i + 1] + f[4 * i + 2];
    out[threadIdx.x + 64] = sum;
    if (!(threadIdx.x % 32)) ((int*)out)[threadIdx.x / 32] = cycles;
}

template <Kind KIND>
void print(const char* name, char* data, float* out) {
    printf("{\"kind\": \"rate\", \"of\": \"%s\", \"cycles\": [", name);
    for (int warps : {1, 2, 4, 8, 16}) {
        int issued, last;
        rate<KIND, false><<<1, warps * 32, 49152>>>(data, out, 0);
        cudaMemcpy(&issued, out, 4, cudaMemcpyDefault);
        rate<KIND, true><<<1, warps * 32, 49152>>>(data, out, 0);
        cudaMemcpy(&last, out, 4, cudaMemcpyDefault);
        printf("%s[%d, %d, %d]", warps > 1 ? ", " : "", warps, issued, last);
    }
    printf("]}\n");
}

// Barriers with constants, and the loop around them.
enum Barrier { kNone, kSync, kNamed, kPingPong, kWarp };
template <Barrier KIND>
__global__ void barriers(int* out) {
    bool is_producer = threadIdx.x < blockDim.x / 2;
    int begin = 0, cycles = 0;
    for (int run = 0; run < 2; run++) {
        __syncthreads();
        begin = (int)clock();
#pragma unroll
        for (int i = 0; i < 32; i++) {
            if (KIND == kSync) __syncthreads();
            if (KIND == kNamed) asm volatile("bar.sync 1, 128;" ::: "memory");
            if (KIND == kWarp) __syncwarp();
        }
        if (KIND == kPingPong) {
            if (is_producer)
#pragma unroll
                for (int i = 0; i < 32; i++) asm volatile("bar.arrive 1, 128;\n bar.sync 2, 128;" ::: "memory");
            else
#pragma unroll
                for (int i = 0; i < 32; i++) asm volatile("bar.sync 1, 128;\n bar.arrive 2, 128;" ::: "memory");
        }
        cycles = (int)clock() - begin;
    }
    if (!threadIdx.x) *out = cycles;
}
template <Barrier KIND>
void round_of(const char* name, int* out) {
    int cycles;
    barriers<KIND><<<1, 128>>>(out);
    cudaMemcpy(&cycles, out, 4, cudaMemcpyDefault);
    printf("{\"kind\": \"round\", \"of\": \"%s\", \"warps\": 4, \"cycles\": %.2f}\n", name, cycles / 32.);
}

int main() {
    char* data;
    float* out;
    cudaMalloc(&data, 64 << 20);
    cudaMalloc(&out, 1 << 16);
    cudaMemset(data, 0, 64 << 20);
    print<kLoad4>("ld.global.4", data, out), print<kLoad16>("ld.global.16", data, out);
    print<kStore4>("st.global.4", data, out), print<kStore16>("st.global.16", data, out);
    print<kLds4>("ld.shared.4", data, out), print<kLds16>("ld.shared.16", data, out);
    print<kSts4>("st.shared.4", data, out), print<kSts16>("st.shared.16", data, out);
    print<kLdmatrix>("ldmatrix.x4", data, out), print<kPack>("cvt.f16x2", data, out), print<kMax>("max", data, out);
    print<kAdd>("add", data, out), print<kFma>("fma", data, out), print<kExp>("ex2", data, out);
    print<kXor>("xor", data, out), print<kShuffle>("shfl", data, out), print<kLoop>("loop", data, out);
    round_of<kNone>("nothing", (int*)out), round_of<kSync>("syncthreads", (int*)out);
    round_of<kNamed>("bar.sync", (int*)out), round_of<kPingPong>("arrive and sync", (int*)out);
    round_of<kWarp>("syncwarp", (int*)out);
    fprintf(stderr, "%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
