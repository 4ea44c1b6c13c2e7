/* From the sums of a warp to y: factors, bias, activation; and again what float32 held but the split operands could not. */
#ifndef TAPCONV_CUDA_MMA_EMIT_CUH
#define TAPCONV_CUDA_MMA_EMIT_CUH

#include "cuda/activation.cuh"
#include "cuda/mma_place.cuh"

/* The outputs that are NaN, from the operands as they are, with float32 chains of at most 64 terms. They are few; the warp that
 * wrote them takes its channels two by two, half of its lanes along samples. */
template <typename T>
static __device__ __noinline__ void repair(const mma_params &p, mma_tile tile, int first_row, int first_channel,
                                           int channels)
{
    int32_t item, time;
    locate(p, tile, first_row + (int)threadIdx.x % 16, item, time);
    if (item >= p.batch || time >= p.out_length) return;
    for (int c = first_channel + (int)threadIdx.x % 32 / 16; c < first_channel + channels; c += 2) {
        if (tile.channel + c >= p.group_out) return;
        const int64_t o = (int64_t)tile.group * p.group_out + tile.channel + c;
        const int64_t y = item * p.y_item + o * p.y_channel + time * p.y_time;
        const float found = p.out_type == TAPCONV_F32 ? ((const float *)p.out)[y] : load_as_f32((const T *)p.out + y);
        if (found == found) continue;
        float sum = 0, chain = 0;
        int terms = 0;
        for (int i = 0; i < p.group_in; i++)
            for (int k = 0; k < p.kernel_size; k++) {
                const int64_t sample = (int64_t)time * p.stride + (int64_t)k * p.dilation - p.padding_left;
                const bool there = sample >= 0 && sample < p.length;
                const float x =
                    there ? load_as_f32((const T *)p.x + item * p.x_item +
                                        ((int64_t)tile.group * p.group_in + i) * p.x_channel + sample * p.x_time)
                          : 0.0f;
                chain = fmaf(p.raw[(o * p.group_in + i) * p.kernel_size + k], x, chain);
                if (++terms == 64) sum += chain, chain = 0, terms = 0;
            }
        sum += chain;
        if (p.bias) sum += load_param(p.bias, (tapconv_type)p.param_type, o);
        sum = activate(p.activation, sum);
        if (p.out_type == TAPCONV_F32)
            ((float *)p.out)[y] = sum;
        else
            store_f32((T *)p.out + y, sum);
    }
}

/* Runs f with the compile-time number of a register piece. */
template <int FIRST, int END, typename F> static __device__ __forceinline__ void with_piece(int q, F f)
{
    if constexpr (END - FIRST == 1) {
        f(std::integral_constant<int, FIRST>());
    } else {
        constexpr int middle = (FIRST + END) / 2;
        if (q < middle)
            with_piece<FIRST, middle>(q, f);
        else
            with_piece<middle, END>(q, f);
    }
}

/* The factors and biases of a lane's channels in a piece of 16: the lane/4-th and the one eight later. */
struct channel_terms {
    float scale[2], bias[2];

    __device__ __forceinline__ void load(const mma_params &p, int64_t o, int channels)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int c = i * 8 + (int)threadIdx.x % 32 / 4;
            scale[i] = p.row_scale && c < channels ? p.row_scale[o + c] : 1.0f;
            bias[i] = p.bias && c < channels ? load_param(p.bias, (tapconv_type)p.param_type, o + c) : 0.0f;
        }
    }
};

/* Where a lane's values go: four neighbouring samples, four lanes a channel, from the lane/4-th channel on. */
struct emit_place {
    int64_t y; /* in elements */
    int left;  /* samples wanted from there on */

    __device__ __forceinline__ emit_place()
    {
    }
    __device__ __forceinline__ emit_place(const mma_params &p, const mma_tile &tile, int row, int64_t first_output)
    {
        const int lane = threadIdx.x % 32;
        int32_t item, time;
        locate(p, tile, row + lane % 4 * 4, item, time);
        left = item < p.batch ? p.out_length - time : 0;
        y = item * p.y_item + (first_output + lane / 4) * p.y_channel + time;
    }
};

/* 16 samples x 16 channels of the warp's sums. */
static __device__ __forceinline__ void to_shared(uint32_t out, const float *sum)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int column = i / 4 * 8 + lane % 4 * 2 + i % 2, row = lane / 4 + i % 4 / 2 * 8;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(out + (uint32_t)(column * MMA_OUT_PITCH + row) * 4), "f"(sum[i])
                     : "memory");
    }
}

/* Four samples of the lane's first or second channel, as they were before the activation. */
static __device__ __forceinline__ void from_shared(const mma_params &p, uint32_t out, int second, float scale,
                                                   float bias, float (&v)[4], bool &strange)
{
    const int lane = threadIdx.x % 32;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "r"(out + (uint32_t)((lane / 4 + second * 8) * MMA_OUT_PITCH + lane % 4 * 4) * 4)
                 : "memory");
    if (p.row_scale) {
#pragma unroll
        for (int e = 0; e < 4; e++) v[e] *= scale;
        /* NaN if any is; of opposite infinities too, which repair() then looks at. */
        const float all = (v[0] + v[1]) + (v[2] + v[3]);
        strange |= all != all;
    }
    if (p.bias)
#pragma unroll
        for (int e = 0; e < 4; e++) v[e] += bias;
}

/* A piece of which all is wanted, in aligned fours and not activated. Returns whether any value might be NaN. */
template <typename OUT>
static __device__ __forceinline__ bool emit_whole(const mma_params &p, uint32_t out, int64_t y,
                                                  const channel_terms &terms)
{
    bool strange = false;
    float v[2][4];
#pragma unroll
    for (int i = 0; i < 2; i++) from_shared(p, out, i, terms.scale[i], terms.bias[i], v[i], strange);
#pragma unroll
    for (int i = 0; i < 2; i++) store_run_f32((OUT *)p.out + y + i * 8 * p.y_channel, v[i]);
    return strange;
}

/* Any other one, as rows of samples. */
template <typename OUT>
static __device__ __forceinline__ bool emit_rows(const mma_params &p, const mma_tile &tile, uint32_t out, int row,
                                                 int64_t o, int channels)
{
    bool strange = false;
    const emit_place place(p, tile, row, o);
    if (place.left <= 0) return false;
    channel_terms terms;
    terms.load(p, o, channels);
    OUT *y = (OUT *)p.out + place.y;
#pragma unroll 1
    for (int i = 0; i < 2 && i * 8 + (int)threadIdx.x % 32 / 4 < channels; i++, y += 8 * p.y_channel) {
        float v[4];
        from_shared(p, out, i, i ? terms.scale[1] : terms.scale[0], i ? terms.bias[1] : terms.bias[0], v, strange);
        activate_all(p.activation, v);
        if (p.aligned && place.left >= 4) {
            store_run_f32(y, v);
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (e < place.left) store_f32(y + e, v[e]);
        }
    }
    return strange;
}

/* Channels last: lanes along channels. */
template <typename OUT>
static __device__ __forceinline__ bool emit_columns(const mma_params &p, const mma_tile &tile, uint32_t from, int row,
                                                    int64_t o, int channels)
{
    const int c = threadIdx.x % 16;
    bool strange = false;
    if (c >= channels) return false;
    const float scale = p.row_scale ? p.row_scale[o + c] : 1.0f;
    const float bias = p.bias ? load_param(p.bias, (tapconv_type)p.param_type, o + c) : 0.0f;
#pragma unroll 1
    for (int r = threadIdx.x % 32 / 16; r < 16; r += 2) {
        int32_t item, time;
        locate(p, tile, row + r, item, time);
        if (item >= p.batch || time >= p.out_length) continue;
        float v[1];
        asm volatile("ld.shared.f32 %0, [%1];"
                     : "=f"(v[0])
                     : "r"(from + (uint32_t)(c * MMA_OUT_PITCH + r) * 4)
                     : "memory");
        v[0] *= scale;
        strange |= v[0] != v[0];
        if (p.bias) v[0] += bias;
        activate_all(p.activation, v);
        store_f32((OUT *)p.out + item * p.y_item + (o + c) * p.y_channel + time * p.y_time, v[0]);
    }
    return strange;
}

template <typename OUT>
static __device__ __forceinline__ bool emit(const mma_params &p, const mma_tile &tile, uint32_t out, int row, int64_t o,
                                            int channels)
{
    return p.y_time == 1 ? emit_rows<OUT>(p, tile, out, row, o, channels)
                         : emit_columns<OUT>(p, tile, out, row, o, channels);
}

#endif
