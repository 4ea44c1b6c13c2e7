/* From windows of x as they were fetched to the words that the left operand's registers hold, in place. */
#ifndef TAPCONV_CUDA_MMA_PREPARE_CUH
#define TAPCONV_CUDA_MMA_PREPARE_CUH

#include "cuda/mma_place.cuh"

struct words {
    uint32_t at[4];
};
static __device__ __forceinline__ words load_words(uint32_t from)
{
    words w;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.at[0]), "=r"(w.at[1]), "=r"(w.at[2]), "=r"(w.at[3])
                 : "r"(from)
                 : "memory");
    return w;
}
static __device__ __forceinline__ void store_words(uint32_t to, const words &w)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(w.at[0]), "r"(w.at[1]), "r"(w.at[2]),
                 "r"(w.at[3])
                 : "memory");
}

/* Back to float32, without taking the register apart. */
static __device__ __forceinline__ void halves_of(uint32_t pair, float &a, float &b)
{
    asm("{\n.reg .f16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
        : "=f"(a), "=f"(b)
        : "r"(pair));
}
/* Two float32 as one register of 16-bit operands. */
template <int MATH> static __device__ __forceinline__ uint32_t pair_of(float a, float b)
{
    if constexpr (MATH == TAPCONV_MATH_BF16) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
        return *(const uint32_t *)&pair;
    } else {
        const __half2 pair = __floats2half2_rn(a, b);
        return *(const uint32_t *)&pair;
    }
}

/* A window of x, in place, to words as the left operand's registers hold them: of f32 the high parts of two neighbouring channels in
 * the first one's row and the low parts in the second one's; of 16-bit operands both channels in the first one's row or, if
 * they were stored so, in the two rows one after the other. `units` are rows' pieces of 16 bytes. A function of its own since
 * registers are few around it. */
template <int MATH, typename S, int PITCH>
static __device__ __noinline__ void prepare(int units, int channels, uint32_t window, uint32_t factors)
{
    constexpr uint32_t row_bytes = PITCH * sizeof(S);
    const int thread = threadIdx.x % GROUP;
    if constexpr (sizeof(S) == 2) {
        /* A warp reads both rows before it writes over them. */
        const int lane = thread % 32;
        for (int pair = thread / 32; pair < channels / 2; pair += MMA_FETCHING_THREADS / 32) {
            const uint32_t rows = window + 2 * pair * row_bytes;
            words first[2], second[2];
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (lane + i * 32 < units) {
                    first[i] = load_words(rows + (lane + i * 32) * 16);
                    second[i] = load_words(rows + row_bytes + (lane + i * 32) * 16);
                }
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (lane + i * 32 < units) {
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        words both;
#pragma unroll
                        for (int e = 0; e < 4; e++) {
                            const uint32_t a = first[i].at[2 * h + e / 2], b = second[i].at[2 * h + e / 2];
                            both.at[e] = __byte_perm(a, b, e % 2 ? 0x7632 : 0x5410);
                        }
                        store_words(rows + (lane + i * 32) * 32 + h * 16, both);
                    }
                }
        }
        return;
    }
    /* Neighbouring threads share a unit where units are few. */
    const int deep = units * 4 <= MMA_FETCHING_THREADS ? 4 : units * 2 <= MMA_FETCHING_THREADS ? 2 : 1;
    const int part = thread % deep, unit = thread / deep;
    const bool mine = unit < units;
    const uint32_t column = window + (mine ? unit : 0) * 16;
    float scale[4] = {1, 1, 1, 1};
    constexpr int batch =
        4; /* loads before their use: 16 channels, of which 4 threads share, are a whole number of batches */
    if constexpr (MATH == TAPCONV_MATH_F32) {
        float most[4] = {};
        for (int c = part; c < channels; c += batch * deep) { /* channels are a multiple of 16 */
            words w[batch];
#pragma unroll
            for (int k = 0; k < batch; k++) w[k] = load_words(column + (c + k * deep) * row_bytes);
#pragma unroll
            for (int k = 0; k < batch; k++)
#pragma unroll
                for (int i = 0; i < 4; i++) /* NaN stays, unlike with fmaxf */
                    asm("max.NaN.f32 %0, %0, %1;" : "+f"(most[i]) : "f"(fabsf(__uint_as_float(w[k].at[i]))));
        }
        words factor;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            for (int other = 1; other < deep; other *= 2) {
                const float theirs = __shfl_xor_sync(0xffffffffu, most[i], other);
                asm("max.NaN.f32 %0, %0, %1;" : "+f"(most[i]) : "f"(theirs));
            }
            const uint32_t exponent = __float_as_uint(most[i]) >> 23;
            const bool in_range = exponent >= 127 - 100 && exponent <= 127 + 90;
            factor.at[i] = in_range ? (exponent - 14) << 23 : most[i] == 0 ? 127u << 23 : 0x7fffffffu;
            /* The factor's inverse; of NaN anything, since the product is multiplied by it. */
            scale[i] = __uint_as_float(0x7f000000u - factor.at[i]);
        }
        if (mine && part == 0) store_words(factors + unit * 16, factor);
    }
    if (!mine) return;
    constexpr int half = batch / 2; /* pairs */
    for (int c = 2 * part; c < channels; c += half * 2 * deep) {
        words a[half], b[half];
#pragma unroll
        for (int k = 0; k < half; k++) {
            a[k] = load_words(column + (c + k * 2 * deep) * row_bytes);
            b[k] = load_words(column + (c + k * 2 * deep + 1) * row_bytes);
        }
#pragma unroll
        for (int k = 0; k < half; k++) {
            const uint32_t at = column + (c + k * 2 * deep) * row_bytes;
            words high, low;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float v = __uint_as_float(a[k].at[i]) * scale[i], w = __uint_as_float(b[k].at[i]) * scale[i];
                high.at[i] = pair_of<MATH>(v, w);
                if constexpr (MATH == TAPCONV_MATH_F32) {
                    float high_v, high_w;
                    halves_of(high.at[i], high_v, high_w);
                    low.at[i] = pair_of<MATH>(v - high_v, w - high_w);
                }
            }
            store_words(at, high);
            if constexpr (MATH == TAPCONV_MATH_F32) store_words(at + row_bytes, low);
        }
    }
}

#endif
