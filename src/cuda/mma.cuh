/* Dense and grouped convolution on Hopper's tensor cores: an implicit matrix product without im2col.
 *
 * What it computes: rows are output samples, columns are output channels, the sum runs over slabs of input channels (64; 32 of
 * tf32: what makes a 128-byte row of weights) and, within a slab, over taps.
 *
 * Tile: two groups of 128 threads issue wgmma, each for 64 or 128 samples x 16 to 128 channels (mma_forms); a third group
 * fetches. The samples of all items lie on one axis, `period` columns an item, so that short items share a tile; places that
 * belong to no sample are computed and dropped.
 *
 * Way of the data: input goes from global memory by asynchronous copies into a window of shared memory as it is, a row a
 * channel (mma_fetch.cuh), and is turned there, in place, into what the tensor cores read: scaled and split (f32), pairs of channels
 * of 16-bit operands in one word (mma_prepare.cuh). The left operand of wgmma comes from registers: each thread reads the
 * words of its samples, shifted by the tap, and rounds those of tf32, so nothing need be transposed and no shift need be aligned. All taps
 * of a window read it, so input is fetched once a slab; a stride gives a window a residue, a long dilation a window a tap. Weights
 * were packed as the bytes of the right operand and come by bulk copies, each stage read by both groups. Sums stay in
 * registers; of a finished tile each warp turns 16 channels at a time into rows of samples, through shared memory of its own
 * (mma_emit.cuh).
 *
 * f32: operands are split into two f16 (high + low) after an exact scaling by powers of two, one factor a sample and slab
 * (its largest magnitude comes to 2^14..2^15) and one an output channel. low*high, high*low and high*high of a slab and tap make
 * one chain on the tensor cores, whose accumulators truncate; chains are short because each is added into float32 registers,
 * times the sample's inverse factor. The factor depends on the sample and slab alone, so no bit depends on tile or batch.
 * A slab of a sample with a magnitude that is not 0 and not in 2^-100..2^90 (Inf, NaN included) has NaN for its factor: every output that
 * reads it becomes NaN and is then computed again from the operands as they are (repair()), as are those of
 * output channels with such weights. */
#ifndef TAPCONV_CUDA_MMA_CUH
#define TAPCONV_CUDA_MMA_CUH

#include "cuda/mma_emit.cuh"
#include "cuda/mma_fetch.cuh"

static __device__ __forceinline__ uint32_t word_at(uint32_t at)
{
    uint32_t bits;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(bits) : "r"(at) : "memory");
    return bits;
}

/* round_tf32(), but for low bits, which the tensor cores leave out. */
static __device__ __forceinline__ uint32_t tf32_of(uint32_t bits)
{
    return fabsf(__uint_as_float(bits)) < __uint_as_float(0x7f800000u) ? bits + 0x1000u : bits;
}

/* The left operand of one tap and slab: 16 samples x all channels a warp. */
template <int MATH> struct fragment {
    static constexpr int parts = operand_of<MATH>::parts;
    uint32_t a[parts][4 * STEPS];

    /* From the lane's first word; STEP bytes lead to the same lane's next channels, PART to the low parts. */
    template <uint32_t STEP, uint32_t PART> __device__ __forceinline__ void load(uint32_t first)
    {
#pragma unroll
        for (int part = 0; part < parts; part++)
#pragma unroll
            for (int i = 0; i < 2 * STEPS; i++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const uint32_t word = word_at(first + part * PART + i * STEP + h * 32);
                    a[part][2 * i + h] = prepared<MATH> ? word : tf32_of(word);
                }
    }
    __device__ __forceinline__ void settle()
    {
#pragma unroll
        for (int part = 0; part < parts; part++) wgmma_settle(a[part]);
    }
};

/* d = or += a * b over the steps of a slab; WHOLE: all of them, with no branch between products. */
template <int KIND, int N, bool WHOLE>
static __device__ __forceinline__ void products(float (&d)[N / 2], const uint32_t (&a)[4 * STEPS], uint64_t b,
                                                int steps, int keep)
{
#pragma unroll
    for (int s = 0; s < (WHOLE ? STEPS : STEPS - 1); s++)
        if (WHOLE || s < steps) wgmma<KIND, N>(d, a + 4 * s, b + 2 * s, s > 0 ? 1 : keep);
}

/* f(whether all steps), as one group of products, until it is done. A group of its own in each branch: otherwise the compiler
 * adds a product to wait for. */
template <typename F> static __device__ __forceinline__ void with_steps(int steps, F f)
{
    wgmma_fence();
    if (steps == STEPS) {
        f(std::true_type());
        wgmma_commit();
        wgmma_wait<0>();
    } else {
        f(std::false_type());
        wgmma_commit();
        wgmma_wait<0>();
    }
}

template <int MATH, typename T, int FORM>
static __device__ __forceinline__ void sum_tiles(const mma_params &p, uint32_t memory)
{
    typedef operand_of<MATH> of;
    constexpr mma_form form = mma_forms[FORM];
    constexpr int count = form.count, width = form.width;
    constexpr int pieces = width / MMA_OUT_CHANNELS;
    constexpr int chained =
        count * width > 128 ? 64 : width; /* columns of an f32 chain, for which registers are left */
    constexpr uint32_t part_bytes = form.channels() * ROW_BYTES;
    const int group = threadIdx.x / GROUP, warp = threadIdx.x % GROUP / 32, lane = threadIdx.x % 32;
    const int first_row = (form.wide ? 0 : group * 64 * count) + warp * 16;
    const int first_column = form.wide ? group * width : 0;
    typedef stored<MATH, T> S;
    constexpr int pitch = mma_pitch(form, (tapconv_math)MATH, (int)sizeof(S));
    constexpr uint32_t window_bytes = of::channels * pitch * sizeof(S);
    /* Words of a channel of tf32, of a pair of 16-bit channels: see prepare(). */
    constexpr uint32_t lane_bytes = (sizeof(S) == 4 && of::kind != WGMMA_TF32 ? 2 : 1) * pitch * 4;
    const uint32_t mine = (uint32_t)(first_row + lane / 4), first = lane % 4 * lane_bytes + mine * 4;
    const uint32_t out = memory + p.out_at + (group * 4 + warp) * MMA_OUT_BYTES;
    ring window = {0, 0}, weights = {0, 0};

    for (int32_t index = (int32_t)blockIdx.x; index < p.tiles; index += (int32_t)gridDim.x) {
        float sum[count][width / 2];
#pragma unroll
        for (int m = 0; m < count; m++)
#pragma unroll
            for (int i = 0; i < width / 2; i++) sum[m][i] = 0;
        for (int slab = 0; slab < p.slabs; slab++) {
            const int left = p.group_in - slab * of::channels;
            const int steps = left >= of::channels ? STEPS : (left + of::channels / STEPS - 1) / (of::channels / STEPS);
            mma_window w;
            w.begin(p);
            do {
                const uint32_t samples = memory + p.windows_at + window.at * window_bytes + first;
                const uint32_t factors = memory + p.factors_at + ((uint32_t)(window.at * pitch) + mine) * 4;
                const int lead = lead_of<T>(p, w.offset(p));
                barrier_wait(memory + (prepared<MATH> ? full_windows_at : landed_windows_at) + 8 * window.at,
                             window.parity);
                for (int tap = 0; tap < w.taps; tap++) {
                    const uint32_t shift = (uint32_t)(lead + tap * p.row_step);
                    const uint32_t b = memory + MMA_WEIGHTS_AT + weights.at * of::parts * part_bytes +
                                       (uint32_t)(first_column * ROW_BYTES);
                    const uint32_t full = memory + full_weights_at + 8 * weights.at;
                    if constexpr (MATH == TAPCONV_MATH_F32) {
#pragma unroll
                        for (int m = 0; m < count; m++) {
                            fragment<MATH> x;
                            const uint32_t factor0 = word_at(factors + (shift + m * 64) * 4);
                            const uint32_t factor8 = word_at(factors + (shift + m * 64 + 8) * 4);
                            x.template load<4 * lane_bytes, pitch * 4>(samples + (shift + m * 64) * 4);
                            if (m == 0) barrier_wait(full, weights.parity);
#pragma unroll
                            for (int c = 0; c < width; c += chained) {
                                float chain[chained / 2];
                                const uint32_t high = b + c * ROW_BYTES, low = high + part_bytes;
                                with_steps(steps, [&](auto whole) {
                                    constexpr bool all = decltype(whole)::value;
                                    products<of::kind, chained, all>(chain, x.a[1], operand(high), steps, 0);
                                    products<of::kind, chained, all>(chain, x.a[0], operand(low), steps, 1);
                                    products<of::kind, chained, all>(chain, x.a[0], operand(high), steps, 1);
                                });
                                wgmma_settle(chain);
                                x.settle();
                                if (m == count - 1 && c == width - chained) {
                                    __syncwarp();
                                    if (lane == 0) barrier_arrive(memory + empty_weights_at + 8 * weights.at);
                                }
#pragma unroll
                                for (int i = 0; i < chained / 2; i++)
                                    sum[m][c / 2 + i] = fmaf(chain[i], __uint_as_float(i % 4 < 2 ? factor0 : factor8),
                                                             sum[m][c / 2 + i]);
                            }
                        }
                    } else {
                        fragment<MATH> x[count];
#pragma unroll
                        for (int m = 0; m < count; m++)
                            x[m].template load<4 * lane_bytes, 0>(samples + (shift + m * 64) * 4);
                        barrier_wait(full, weights.parity);
                        with_steps(steps, [&](auto whole) {
#pragma unroll
                            for (int m = 0; m < count; m++)
                                products<of::kind, width, decltype(whole)::value>(sum[m], x[m].a[0], operand(b), steps,
                                                                                  1);
                        });
#pragma unroll
                        for (int m = 0; m < count; m++) {
                            wgmma_settle(sum[m]);
                            x[m].settle();
                        }
                        __syncwarp();
                        if (lane == 0) barrier_arrive(memory + empty_weights_at + 8 * weights.at);
                    }
                    weights.advance(p.weight_stages);
                }
                __syncwarp();
                if (lane == 0) barrier_arrive(memory + empty_windows_at + 8 * window.at);
                window.advance(p.window_stages);
            } while (w.next(p));
        }

        const mma_tile tile = tile_at(p, index, form.samples(), form.channels());
        bool strange = false;
        const int64_t first_output = (int64_t)tile.group * p.group_out + tile.channel + first_column;
        const int channels = p.group_out - tile.channel - first_column; /* there may be less than none */
        const bool as_float = sizeof(T) == 4 || p.out_type == TAPCONV_F32;
        emit_place places[count];
        bool whole = p.aligned && p.y_time == 1 && p.activation == TAPCONV_ACT_NONE && channels >= width;
#pragma unroll
        for (int m = 0; m < count; m++) {
            places[m] = emit_place(p, tile, first_row + m * 64, first_output);
            whole = whole && __all_sync(0xffffffff, places[m].left >= 4);
        }
        if (whole) {
#pragma unroll
            for (int m = 0; m < count; m++)
#pragma unroll
                for (int c = 0; c < pieces; c++) {
                    channel_terms terms;
                    terms.load(p, first_output + c * MMA_OUT_CHANNELS, MMA_OUT_CHANNELS);
                    to_shared(out, sum[m] + c * 8);
                    __syncwarp();
                    strange |= as_float
                                   ? emit_whole<float>(p, out, places[m].y + c * MMA_OUT_CHANNELS * p.y_channel, terms)
                                   : emit_whole<T>(p, out, places[m].y + c * MMA_OUT_CHANNELS * p.y_channel, terms);
                    __syncwarp();
                }
        } else {
#pragma unroll 1 /* the code is long */
            for (int q = 0; q < count * pieces; q++) {
                const int m = q / pieces, c = q % pieces * MMA_OUT_CHANNELS;
                if (c >= channels) continue;
                with_piece<0, count * pieces>(q, [&](auto piece) {
                    constexpr int i = decltype(piece)::value;
                    to_shared(out, sum[i / pieces] + i % pieces * 8);
                });
                __syncwarp();
                const int row = first_row + m * 64;
                strange |= as_float ? emit<float>(p, tile, out, row, first_output + c, channels - c)
                                    : emit<T>(p, tile, out, row, first_output + c, channels - c);
                __syncwarp();
            }
        }
        if (MATH == TAPCONV_MATH_F32 && __any_sync(0xffffffff, strange))
            for (int m = 0; m < count; m++) repair<T>(p, tile, first_row + m * 64, first_column, width);
    }
}

template <int MATH, typename T, int FORM>
__global__ void __launch_bounds__(3 * GROUP, 1) mma_kernel(const __grid_constant__ mma_params p)
{
    constexpr int summing = mma_registers(mma_forms[FORM], (tapconv_math)MATH);
    extern __shared__ unsigned char dynamic[];
    const uint32_t memory = (shared_address(dynamic) + 1023) & ~1023u;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.window_stages; i++) {
            barrier_init(memory + landed_windows_at + 8 * i, MMA_FETCHING_THREADS);
            barrier_init(memory + full_windows_at + 8 * i, MMA_FETCHING_THREADS);
            barrier_init(memory + empty_windows_at + 8 * i, SUMMING_WARPS);
        }
        for (int i = 0; i < p.weight_stages; i++) {
            barrier_init(memory + full_weights_at + 8 * i, 1);
            barrier_init(memory + empty_weights_at + 8 * i, SUMMING_WARPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= 2 * GROUP) {
        registers_give<MMA_REGISTERS - 2 * summing>();
        if (threadIdx.x % GROUP < MMA_FETCHING_THREADS)
            fetch_windows<MATH, T, FORM>(p, memory);
        else if (threadIdx.x % 32 == 0)
            fetch_weights<MATH, FORM>(p, memory);
    } else {
        registers_take<summing>();
        sum_tiles<MATH, T, FORM>(p, memory);
    }
}

#endif
