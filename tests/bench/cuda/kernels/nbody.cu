// The pull of n bodies (three places and a mass) on each of them; n is a multiple of 128, the size of a block.
__device__ void pull(float4 one, float4 other, float3& sum) {
    float x = other.x - one.x, y = other.y - one.y, z = other.z - one.z;
    float inverse = rsqrtf(x * x + y * y + z * z + 0.01f), weight = other.w * inverse * inverse * inverse;
    sum.x += x * weight, sum.y += y * weight, sum.z += z * weight;
}

extern "C" __global__ void nbody_plain(const float4* bodies, float4* forces, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    float4 own = bodies[i];
    float3 sum = {0, 0, 0};
    for (int j = 0; j < n; ++j) pull(own, bodies[j], sum);
    forces[i] = make_float4(sum.x, sum.y, sum.z, 0);
}

extern "C" __global__ void nbody_shared(const float4* bodies, float4* forces, int n) {
    __shared__ float4 others[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    float4 own = bodies[i];
    float3 sum = {0, 0, 0};
    for (int k = 0; k < n; k += 128) {
        others[threadIdx.x] = bodies[k + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; ++j) pull(own, others[j], sum);
        __syncthreads();
    }
    forces[i] = make_float4(sum.x, sum.y, sum.z, 0);
}
