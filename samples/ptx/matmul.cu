// c = a b in five steps: a has n rows of depth numbers, b depth rows of n; both are multiples of 32.

const int TILE = 16;

// Lanes of a warp are in different rows: each of them loads from another line of memory.
extern "C" __global__ void matmul_1(const float* a, const float* b, float* c, int n, int depth) {
    int row = blockIdx.x * TILE + threadIdx.x, column = blockIdx.y * TILE + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < depth; k++) sum += a[row * depth + k] * b[k * n + column];
    c[row * n + column] = sum;
}

// Lanes of a warp are side by side in a row.
extern "C" __global__ void matmul_2(const float* a, const float* b, float* c, int n, int depth) {
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < depth; k++) sum += a[row * depth + k] * b[k * n + column];
    c[row * n + column] = sum;
}

// A block loads tiles into shared memory once. A warp may store its part of the next tile while another still reads.
extern "C" __global__ void matmul_3(const float* a, const float* b, float* c, int n, int depth) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int i = threadIdx.y, j = threadIdx.x, row = blockIdx.y * TILE + i, column = blockIdx.x * TILE + j;
    float sum = 0;
    for (int tile = 0; tile < depth; tile += TILE) {
        left[i][j] = a[row * depth + tile + j];
        right[i][j] = b[(tile + i) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += left[i][k] * right[k][j];
    }
    c[row * n + column] = sum;
}

// A second barrier: all have read before anything is stored. And a thread has four numbers of a row, so that a number of
// the left tile is loaded once for four products. The lanes of a warp read it in four rows, all in one bank.
extern "C" __global__ void matmul_4(const float* a, const float* b, float* c, int n, int depth) {
    __shared__ float left[32][32];
    __shared__ float4 right[32][8];
    int i = threadIdx.y, j = threadIdx.x, row = blockIdx.y * 32 + i, column = blockIdx.x * 32 + 4 * j;
    float4 sum = {0, 0, 0, 0};
    for (int tile = 0; tile < depth; tile += 32) {
        *(float4*)&left[i][4 * j] = *(const float4*)&a[row * depth + tile + 4 * j];
        right[i][j] = *(const float4*)&b[(tile + i) * n + column];
        __syncthreads();
        for (int k = 0; k < 32; k++) {
            float one = left[i][k];
            float4 four = right[k][j];
            sum.x += one * four.x;
            sum.y += one * four.y;
            sum.z += one * four.z;
            sum.w += one * four.w;
        }
        __syncthreads();
    }
    *(float4*)&c[row * n + column] = sum;
}

// Four unused numbers behind each row of the left tile: rows begin in different banks.
extern "C" __global__ void matmul_5(const float* a, const float* b, float* c, int n, int depth) {
    __shared__ float left[32][36];
    __shared__ float4 right[32][8];
    int i = threadIdx.y, j = threadIdx.x, row = blockIdx.y * 32 + i, column = blockIdx.x * 32 + 4 * j;
    float4 sum = {0, 0, 0, 0};
    for (int tile = 0; tile < depth; tile += 32) {
        *(float4*)&left[i][4 * j] = *(const float4*)&a[row * depth + tile + 4 * j];
        right[i][j] = *(const float4*)&b[(tile + i) * n + column];
        __syncthreads();
        for (int k = 0; k < 32; k++) {
            float one = left[i][k];
            float4 four = right[k][j];
            sum.x += one * four.x;
            sum.y += one * four.y;
            sum.z += one * four.z;
            sum.w += one * four.w;
        }
        __syncthreads();
    }
    *(float4*)&c[row * n + column] = sum;
}
