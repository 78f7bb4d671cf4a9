// samples/flash/forward.py in CUDA C: the forward kernel of FlashAttention in the steps of progression.py, for float16,
// d 128, tiles of 64 queries and 64 keys, four warps, and lengths that are multiples of a tile.
//     nvcc -arch=sm_90 -O3 -use_fast_math flash.cu -o flash && ./flash
#include <cuda_fp16.h>

#include "sample.h"

constexpr int kD = 128, kRows = 64, kWarps = 4, kThreads = 32 * kWarps, kPieces = kD / 8, kParts = kD / 16;
constexpr int kWarpRows = kRows / kWarps, kSharedBytes = 3 * kRows * kD * 2, kKeyParts = kRows / 16;

struct Config {
    bool swizzled, eager;
    int parts;  // parts of keys and values in registers at a time; 0: all
    bool double_buffer, optimized;
};

// Where a piece of 16 bytes of a tile is in shared memory.
template <bool SWIZZLED>
__device__ unsigned place(unsigned tile, int row, int piece) {
    return tile + (row * kPieces + (SWIZZLED ? piece ^ row % 8 : piece)) * 16;
}

// Each warp copies its own 16 rows, two at a time.
template <bool SWIZZLED>
__device__ void load_tile(unsigned tile, const half* source) {
    int first = threadIdx.x / 32 * kWarpRows + threadIdx.x % 32 / kPieces, piece = threadIdx.x % kPieces;
#pragma unroll
    for (int step = 0; step < kWarpRows; step += 2)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place<SWIZZLED>(tile, first + step, piece)),
                     "l"(source + (first + step) * kD + piece * 8)
                     : "memory");
}

__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

__device__ void show_copies() {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
}

template <bool TRANSPOSED>
__device__ void load_matrices(unsigned (&to)[4], unsigned at) {
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at)
                     : "memory");
}

__device__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Adds the product of `left` and the tile at `tile` to `acc`; PARTS parts of the tile are in registers at a time. Keys
// have their depth along a row (8 parts, 64 columns of the result), values along a column (4 parts, 128 columns).
template <bool SWIZZLED, bool IS_VALUES, int PARTS, bool DOUBLE_BUFFER, int DEPTH, int COLUMNS>
__device__ void product(float (&acc)[COLUMNS][4], const unsigned (&left)[DEPTH][4], unsigned tile) {
    constexpr int kAtATime = PARTS ? PARTS : DEPTH;
    int lane = threadIdx.x % 32;
    unsigned loaded[DOUBLE_BUFFER ? 2 : 1][kAtATime][COLUMNS / 2][4];
    auto load = [&](int first, int buffer) {
#pragma unroll
        for (int part = 0; part < kAtATime; part++)
#pragma unroll
            for (int pair = 0; pair < COLUMNS / 2; pair++) {
                int row = IS_VALUES ? lane % 16 + 16 * (first + part) : lane / 16 * 8 + lane % 8 + 16 * pair;
                int piece = IS_VALUES ? lane / 16 + 2 * pair : lane / 8 % 2 + 2 * (first + part);
                load_matrices<IS_VALUES>(loaded[buffer][part][pair], place<SWIZZLED>(tile, row, piece));
            }
    };
    load(0, 0);
#pragma unroll
    for (int first = 0; first < DEPTH; first += kAtATime) {
        int now = DOUBLE_BUFFER ? first / kAtATime % 2 : 0;
        if (DOUBLE_BUFFER && first + kAtATime < DEPTH) load(first + kAtATime, 1 - now);
#pragma unroll
        for (int part = 0; part < kAtATime; part++)
#pragma unroll
            for (int column = 0; column < COLUMNS; column++)
                mma(acc[column], left[first + part], loaded[now][part][column / 2][column % 2 * 2],
                    loaded[now][part][column / 2][column % 2 * 2 + 1]);
        if (!DOUBLE_BUFFER && first + kAtATime < DEPTH) load(first + kAtATime, 0);
    }
}

template <bool SWIZZLED, bool EAGER, int PARTS, bool DOUBLE_BUFFER, bool OPTIMIZED>
__global__ void __launch_bounds__(kThreads)
    forward(const half* q, const half* k, const half* v, half* out, int length, Spans spans) {
    extern __shared__ __align__(128) char shared[];
    begin_span(spans);
    unsigned q_tile = __cvta_generic_to_shared(shared), k_tile = q_tile + kRows * kD * 2, v_tile = k_tile + kRows * kD * 2;
    size_t head = (size_t)blockIdx.y * length * kD;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first_query = blockIdx.x * kRows;
    k += head, v += head;
    const float scale = (OPTIMIZED ? 1.4426950408889634f : 1.0f) * 0.08838834764831845f;
    float largest[2] = {-INFINITY, -INFINITY}, total[2] = {}, acc[kD / 8][4] = {};
    unsigned queries[kParts][4];
    load_tile<SWIZZLED>(q_tile, q + head + first_query * kD);
    if (EAGER) load_tile<SWIZZLED>(k_tile, k + (length - kRows) * kD), commit();
#pragma unroll 1
    for (int key = length - kRows; key >= 0; key -= kRows) {
        if (!EAGER) load_tile<SWIZZLED>(k_tile, k + key * kD), commit();
        show_copies();  // K, and with the first step Q
        if (EAGER) load_tile<SWIZZLED>(v_tile, v + key * kD), commit();
        if (key == length - kRows)
#pragma unroll
            for (int part = 0; part < kParts; part++)
                load_matrices<false>(queries[part],
                                     place<SWIZZLED>(q_tile, warp * kWarpRows + lane % 16, lane / 16 + 2 * part));
        float scores[kRows / 8][4] = {};
        product<SWIZZLED, false, PARTS, DOUBLE_BUFFER>(scores, queries, k_tile);
        float factor[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float most = largest[half];
#pragma unroll
            for (auto& each : scores) {
                if (!OPTIMIZED) each[2 * half] *= scale, each[2 * half + 1] *= scale;
                most = fmaxf(most, fmaxf(each[2 * half], each[2 * half + 1]));
            }
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
            float highest = most == -INFINITY ? 0 : most, sum = 0;
            if (OPTIMIZED) highest *= scale;
            factor[half] = OPTIMIZED ? exp2f(largest[half] * scale - highest) : __expf(largest[half] - highest);
#pragma unroll
            for (auto& each : scores)
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    each[i] = OPTIMIZED ? exp2f(each[i] * scale - highest) : __expf(each[i] - highest);
                    sum += each[i];
                }
            total[half] = total[half] * factor[half] + sum;
            largest[half] = most;
        }
#pragma unroll
        for (auto& each : acc)
#pragma unroll
            for (int i = 0; i < 4; i++) each[i] *= factor[i / 2];
        unsigned shares[kKeyParts][4];
#pragma unroll
        for (int part = 0; part < kKeyParts; part++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                half2 pair = __floats2half2_rn(scores[2 * part + i / 2][i % 2 * 2], scores[2 * part + i / 2][i % 2 * 2 + 1]);
                shares[part][i] = *(unsigned*)&pair;
            }
        if (!EAGER) load_tile<SWIZZLED>(v_tile, v + key * kD), commit();
        show_copies();  // V
        if (EAGER && key) load_tile<SWIZZLED>(k_tile, k + (key - kRows) * kD), commit();
        product<SWIZZLED, true, PARTS, DOUBLE_BUFFER>(acc, shares, v_tile);
    }
    float share[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = total[half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        share[half] = 1 / sum;
    }
#pragma unroll
    for (int piece = 0; piece < kPieces; piece++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = warp * kWarpRows + lane / 4 + 8 * half;
            half2 pair = __floats2half2_rn(acc[piece][2 * half] * share[half], acc[piece][2 * half + 1] * share[half]);
            *(half2*)(shared + place<SWIZZLED>(0, row, piece) + lane % 4 * 4) = pair;
        }
    __syncwarp();
#pragma unroll
    for (int step = 0; step < kWarpRows; step += 2) {
        int row = warp * kWarpRows + lane / kPieces + step, piece = lane % kPieces;
        *(int4*)(out + head + (first_query + row) * kD + piece * 8) = *(int4*)(shared + place<SWIZZLED>(0, row, piece));
    }
    end_span(spans);
}

int main() {
    using Kernel = void (*)(const half*, const half*, const half*, half*, int, Spans);
    struct {
        const char* step;
        Kernel kernel;
    } steps[] = {{"base", forward<false, false, 0, false, false>},
                 {"swizzled", forward<true, false, 0, false, false>},
                 {"eager copies", forward<true, true, 0, false, false>},
                 {"fragments by part", forward<true, true, 2, false, false>},
                 {"double buffer", forward<true, true, 2, true, false>},
                 {"optimised softmax", forward<true, true, 2, true, true>}};
    const int length = 512;
    for (int heads : {1, 4, 16}) {
        size_t size = (size_t)heads * length * kD;
        std::vector<half> inputs[3] = {std::vector<half>(size), std::vector<half>(size), std::vector<half>(size)};
        for (int which = 0; which < 3; which++)  // multiples of 1/256 from -2 to 2
            for (size_t i = 0; i < size; i++) inputs[which][i] = __float2half(number(which * size + i) * 4 - 2);
        half *q = device_of(inputs[0]), *k = device_of(inputs[1]), *v = device_of(inputs[2]), *out = device_of(inputs[0]);
        for (auto& each : steps) {
            cudaFuncAttributes attributes;
            cudaFuncGetAttributes(&attributes, each.kernel);
            cudaFuncSetAttribute(each.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
            printf("{\"sample\": \"flash\", \"step\": \"%s\", \"heads\": %d, \"length\": %d, \"registers\": %d, "
                   "\"spilled_bytes\": %zu, ",
                   each.step, heads, length, attributes.numRegs, attributes.localSizeBytes);
            cudaMemset(out, 255, size * 2);
            time_launches(kWarps, length / kRows * heads, [&](Spans spans) {
                each.kernel<<<dim3(length / kRows, heads), kThreads, kSharedBytes>>>(q, k, v, out, length, spans);
            });
            auto results = host_of((uint16_t*)out, size);
            printf("\"every_509th\": [");
            if (heads == 4)
                for (size_t i = 0; i < size; i += 509) printf(i ? ", %d" : "%d", results[i]);
            printf("]}\n");
        }
        for (half* each : {q, k, v, out}) cudaFree(each);
    }
    fprintf(stderr, "%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
