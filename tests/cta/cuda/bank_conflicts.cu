// samples/16_bank_conflicts.py in CUDA C: one warp transposes tiles through shared memory, as they are, padded, swizzled.
//     nvcc -arch=sm_90 -O3 bank_conflicts.cu -o bank_conflicts && ./bank_conflicts
#include "sample.h"

constexpr int kTiles = 8, kSide = 32;

template <int PITCH, bool IS_SWIZZLED>
__global__ void __launch_bounds__(kSide) transpose(const float* x, float* y, Spans spans) {
    __shared__ float s[kSide][PITCH];
    int t = threadIdx.x;
    auto place = [](int row, int column) { return IS_SWIZZLED ? row ^ column : column; };
    begin_span(spans);
#pragma unroll 1
    for (int tile = 0; tile < kTiles; tile++) {
        float values[kSide];
#pragma unroll
        for (int each = 0; each < kSide; each++) values[each] = x[(tile * kSide + each) * kSide + t];
#pragma unroll
        for (int each = 0; each < kSide; each++) s[each][place(each, t)] = values[each];
        __syncwarp();
#pragma unroll
        for (int each = 0; each < kSide; each++) values[each] = s[t][place(t, each)];
#pragma unroll
        for (int each = 0; each < kSide; each++) y[(tile * kSide + each) * kSide + t] = values[each];
        __syncwarp();
    }
    end_span(spans);
}

int main() {
    std::vector<float> values(kTiles * kSide * kSide);
    for (size_t i = 0; i < values.size(); i++) values[i] = number(i);
    float *x = device_of(values), *y = device_of(values);
    struct {
        const char* layout;
        void (*kernel)(const float*, float*, Spans);
    } variants[] = {{"as it is", transpose<32, false>}, {"padded", transpose<33, false>}, {"swizzled", transpose<32, true>}};
    for (auto& each : variants) {
        printf("{\"sample\": \"bank conflicts\", \"layout\": \"%s\", ", each.layout);
        cudaMemset(y, 255, values.size() * 4);
        time_launches(1, 1, [&](Spans spans) { each.kernel<<<1, kSide>>>(x, y, spans); });
        printf("\"digest\": \"%016lx\"}\n", digest(host_of((uint32_t*)y, values.size())));
    }
    fprintf(stderr, "%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
