/* The family "mma": which problems it takes, how a problem is cut into tiles, and the launch. The kernels are in mma.cuh. */
#include "cuda/mma.h"

#include <stdio.h>

static int operand_channels(tapconv_math math)
{
    return math == TAPCONV_MATH_TF32 ? 32 : 64;
}
static int operand_parts(tapconv_math math)
{
    return math == TAPCONV_MATH_F32 ? 2 : 1;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

struct mma_plan {
    mma_params p;
    int form;
    int64_t shared_bytes, blocks;
    int64_t cycles; /* as estimated, to choose a form */
};

/* How long a block takes, in cycles: the largest of what the tensor cores need, of a group that does not overlap with itself, and of
 * feeding it from L2. Only to choose among forms: a product of 64 x N takes N/2 cycles (measured on an H200); what a group does
 * beside its products (500 and 250), L2's 24 bytes a cycle and multiprocessor and the end of a tile are rough, by profiles of
 * causal-256. */
static int64_t estimate(const mma_params *p, tapconv_math math, const mma_form *form, int64_t window_bytes,
                        int64_t stage_bytes, int64_t multiprocessors)
{
    const int products = math == TAPCONV_MATH_F32 ? 3 : 1;
    const int64_t one = 4 * products * (form->width < 32 ? 16 : form->width / 2);
    const int64_t tensor = 2 * form->count * one;
    const int64_t chain = one + (math == TAPCONV_MATH_F32 ? 500 : 250), alone = form->count * chain;
    const int64_t busy = p->tiles < multiprocessors ? p->tiles : multiprocessors;
    const int64_t bytes_per_cycle = multiprocessors * 24 / busy < 56 ? multiprocessors * 24 / busy : 56;
    const int64_t fed = (stage_bytes + window_bytes / p->window_taps) / bytes_per_cycle;
    const int64_t chunk = tensor > alone ? (tensor > fed ? tensor : fed) : (alone > fed ? alone : fed);
    const int64_t tile = (int64_t)p->slabs * p->kernel_size * chunk + 12 * form->count * form->width + 500;
    return ceil_div(p->tiles, multiprocessors) * tile;
}

/* As many taps a window as fit into shared memory with two windows and two stages of weights; then more stages. */
static int cut(const tapconv_shape *s, const tapconv_cuda_card *card, const void *x, int which, mma_plan *plan)
{
    const tapconv_problem *q = &s->p;
    const mma_form *form = &mma_forms[which];
    const int64_t size = (int64_t)tapconv_type_bytes(q->type), slab = operand_channels(q->math);
    const int64_t stored = mma_stored_bytes(q->math, (int)size);
    mma_params *p = &plan->p;
    *p = mma_params{};
    plan->form = which;
    p->batch = (int32_t)q->batch, p->length = (int32_t)q->length;
    p->out_length = (int32_t)s->out_length, p->kernel_size = (int32_t)q->kernel_size;
    p->stride = (int32_t)q->stride, p->dilation = (int32_t)q->dilation, p->padding_left = (int32_t)q->padding_left;
    p->groups = (int32_t)q->groups, p->group_in = (int32_t)s->group_in, p->group_out = (int32_t)s->group_out;
    p->padded_out = (int32_t)(ceil_div(s->group_out, 64) * 64);
    p->slabs = (int32_t)ceil_div(s->group_in, slab);
    p->channel_tiles = (int32_t)ceil_div(s->group_out, form->channels());

    p->fetch_bytes = (int32_t)size;
    if (q->layout == TAPCONV_NCL && q->stride == 1 && stored == size) /* samples follow one another, and are copied */
        while (p->fetch_bytes < 16 && (uintptr_t)x % (2 * p->fetch_bytes) == 0 &&
               q->length * size % (2 * p->fetch_bytes) == 0)
            p->fetch_bytes *= 2;
    const int64_t piece = p->fetch_bytes / size;

    p->tap_step = (int32_t)(q->stride / greatest_common_divisor(q->stride, q->dilation));
    p->residues = p->tap_step < p->kernel_size ? p->tap_step : p->kernel_size;
    const int64_t row_step = (int64_t)p->tap_step * q->dilation / q->stride;
    const int64_t residue_taps = ceil_div(q->kernel_size, p->tap_step);
    p->row_step = (int32_t)row_step;

    const int64_t stage_bytes = (int64_t)form->channels() * 128 * operand_parts(q->math);
    const int64_t factor_bytes = q->math == TAPCONV_MATH_F32 ? 4 : 0; /* of a row of a window */
    const int64_t pitch = mma_pitch(*form, q->math, (int)stored);
    const int64_t most_taps = (pitch - form->samples() - (piece - 1)) / row_step + 1;
    p->window_taps = (int32_t)(residue_taps < most_taps ? residue_taps : most_taps);
    const int64_t halo = (p->window_taps - 1) * row_step;
    p->fetch_units = (int32_t)ceil_div(form->samples() + halo + piece - 1, piece);
    const int64_t window_bytes = pitch * (slab * stored + factor_bytes);
    int64_t left = MMA_SHARED_BYTES - MMA_FIXED_BYTES - 2 * stage_bytes - 2 * window_bytes;
    const int64_t more_weights = left / stage_bytes, wanted = 65536 / stage_bytes;
    p->weight_stages = (int32_t)(2 + (more_weights < wanted ? more_weights : wanted));
    if (p->weight_stages > MMA_MOST_WEIGHTS) p->weight_stages = MMA_MOST_WEIGHTS;
    left -= (p->weight_stages - 2) * stage_bytes;
    const int64_t more_windows = left / window_bytes;
    p->window_stages = (int32_t)(2 + (more_windows < MMA_MOST_WINDOWS - 2 ? more_windows : MMA_MOST_WINDOWS - 2));
    p->windows_at = (uint32_t)(MMA_WEIGHTS_AT + p->weight_stages * stage_bytes);
    p->factors_at = (uint32_t)(p->windows_at + p->window_stages * pitch * slab * stored);
    p->out_at = (uint32_t)(p->factors_at + p->window_stages * pitch * factor_bytes);
    plan->shared_bytes = p->out_at + 8 * MMA_OUT_BYTES + 1024;

    /* Items one after the other, each at a multiple of what is fetched and stored at once. */
    const int64_t each = ceil_div(s->out_length + halo + piece - 1, piece < 4 ? 4 : piece) * (piece < 4 ? 4 : piece);
    const int64_t apart = q->batch * ceil_div(s->out_length, form->samples());
    const int64_t merged = ceil_div(q->batch * each, form->samples());
    p->merged = merged < apart;
    p->period = (int32_t)(p->merged ? each : ceil_div(s->out_length, form->samples()) * form->samples());
    p->period_divisor = fast_divisor((uint32_t)p->period);
    const int64_t tiles = (p->merged ? merged : apart) * q->groups * p->channel_tiles;
    if (tiles > INT32_MAX / 2) return 0;
    p->tiles = (int32_t)tiles;
    plan->blocks = p->tiles < card->multiprocessors ? p->tiles : card->multiprocessors;
    plan->cycles =
        estimate(p, q->math, form, p->fetch_units * p->fetch_bytes * slab, stage_bytes, card->multiprocessors);
    return 1;
}

/* `x` decides how many bytes are fetched at once; where it is not known it is taken to be aligned. */
static int plan_for(const tapconv_shape *s, const tapconv_cuda_card *card, const void *x, mma_plan *best)
{
    int found = 0;
    for (int i = 0; i < MMA_FORMS; i++) {
        mma_plan plan;
        if (!cut(s, card, x, i, &plan) || (found && plan.cycles >= best->cycles)) continue;
        *best = plan, found = 1;
    }
    return found;
}

static int takes(const tapconv_shape *s, const tapconv_cuda_card *card)
{
    const tapconv_problem *q = &s->p;
    const int64_t most = (int64_t)1 << 28;
    if (card->major != 9 || card->minor != 0 || q->math == TAPCONV_MATH_F64) return 0;
    if (card->shared_bytes_per_block < MMA_SHARED_BYTES) return 0;
    if (s->group_in < 16 || s->group_out < 16 || s->sum_length < 64) return 0;
    /* The kernels count samples and taps in 32 bits. */
    return s->out_length < most && q->length < most && q->kernel_size < most && q->stride < most &&
           q->dilation < most && q->padding_left < most && q->kernel_size * q->dilation < most &&
           s->out_length * q->stride < most * 4 && q->out_channels < most && q->in_channels < most && q->batch < most &&
           q->batch * ceil_div(s->out_length, 128) * q->groups * ceil_div(s->group_out, 64) < most;
}

/* ------------------------------------------------------------------------------------------------------------- packing */

static int64_t chunk_bytes(const tapconv_shape *s)
{
    return ceil_div(s->group_in, operand_channels(s->p.math)) * s->p.kernel_size * s->p.groups *
           ceil_div(s->group_out, 64) * operand_parts(s->p.math) * 64 * 128;
}
static int64_t scale_bytes(const tapconv_shape *s)
{
    return s->p.math == TAPCONV_MATH_F32 ? ceil_div(s->p.out_channels * 4, 256) * 256 : 0;
}

static size_t packed_bytes(const tapconv_shape *s)
{
    const int64_t raw = s->p.math == TAPCONV_MATH_F32 ? ceil_div(s->w_elements * 4, 256) * 256 : 0;
    return (size_t)(chunk_bytes(s) + scale_bytes(s) + raw);
}

/* A warp an output channel: its power of two, as the factor that undoes it in the epilogue. */
template <typename T>
static __global__ void scale_rows(const T *w, float *scale, float *raw, int64_t channels, int64_t terms)
{
    const int64_t o = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (o >= channels) return;
    uint32_t most = 0;
    for (int64_t i = lane; i < terms; i += 32) {
        const float v = load_as_f32(w + o * terms + i);
        const uint32_t size = __float_as_uint(v) & 0x7fffffffu;
        raw[o * terms + i] = v;
        most = size > most ? size : most;
    }
    for (int i = 16; i > 0; i /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, most, i);
        most = other > most ? other : most;
    }
    const uint32_t exponent = most >> 23;
    const bool in_range = exponent >= 127 - 100 && exponent <= 127 + 90;
    if (lane == 0)
        scale[o] = in_range ? __uint_as_float((exponent - 14) << 23) : most == 0 ? 1.0f : __uint_as_float(0x7fffffffu);
}

/* A thread a place of an operand row. */
template <typename T>
static __global__ void pack_chunks(const T *w, const float *scale, unsigned char *packed, tapconv_math math,
                                   int32_t groups, int32_t group_in, int32_t group_out, int32_t kernel_size,
                                   int32_t tap_step, int32_t slabs, int32_t padded_out)
{
    const int channels = math == TAPCONV_MATH_TF32 ? 32 : 64, parts = math == TAPCONV_MATH_F32 ? 2 : 1;
    const int64_t places = (int64_t)groups * slabs * kernel_size * padded_out * channels;
    const int64_t step = (int64_t)gridDim.x * blockDim.x, part_bytes = (int64_t)padded_out * 128;
    for (int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; n < places; n += step) {
        const int place = (int)(n % channels), out = (int)(n / channels % padded_out);
        int64_t rest = n / channels / padded_out;
        unsigned char *const row = packed + rest * parts * part_bytes + (int64_t)out * 128; /* of [group][slab][tap] */
        const int turn = (int)(rest % kernel_size);
        rest /= kernel_size;
        const int slab = (int)(rest % slabs);
        const int64_t group = rest / slabs;
        /* Taps by residue of the stride: `longer` residues have one tap more than the others. */
        const int each = kernel_size / tap_step, longer = kernel_size % tap_step, in_longer = longer * (each + 1);
        const int tap = turn < in_longer ? turn / (each + 1) + turn % (each + 1) * tap_step
                                         : longer + (turn - in_longer) / each + (turn - in_longer) % each * tap_step;
        const int channel = slab * channels + place;
        const int64_t o = group * group_out + out;
        const bool there = channel < group_in && out < group_out;
        const float v = there ? load_as_f32(w + (o * group_in + channel) * kernel_size + tap) : 0.0f;
        const int byte = place * (128 / channels);
        unsigned char *const at = row + ((byte / 16) ^ (out & 7)) * 16 + byte % 16;
        if (math == TAPCONV_MATH_TF32) {
            *(float *)at = round_tf32(v);
        } else if (math == TAPCONV_MATH_BF16) {
            *(__nv_bfloat16 *)at = __float2bfloat16_rn(v);
        } else if (math == TAPCONV_MATH_F16) {
            *(__half *)at = __float2half_rn(v);
        } else {
            const float factor = there ? scale[o] : 1.0f;
            /* 2^14..2^15 at most; where the factor is NaN so is the result, whatever lies here. */
            const float scaled = factor == factor ? v / factor : 0.0f;
            const __half high = __float2half_rn(scaled);
            *(__half *)at = high;
            *(__half *)(at + part_bytes) = __float2half_rn(scaled - __half2float(high));
        }
    }
}

static cudaError_t pack(const tapconv_shape *s, const void *w, void *packed, cudaStream_t stream)
{
    const tapconv_problem *q = &s->p;
    float *const scale = (float *)((unsigned char *)packed + chunk_bytes(s));
    float *const raw = (float *)((unsigned char *)scale + scale_bytes(s));
    const int64_t places = chunk_bytes(s) / operand_parts(q->math) / (q->math == TAPCONV_MATH_TF32 ? 4 : 2);
    const int64_t blocks = ceil_div(places, 256) < 65536 ? ceil_div(places, 256) : 65536;
    const int32_t tap_step = (int32_t)(q->stride / greatest_common_divisor(q->stride, q->dilation));
    return with_type(q->type, [&](auto tag) {
        typedef typename decltype(tag)::type T;
        if (q->math == TAPCONV_MATH_F32)
            scale_rows<<<(unsigned)ceil_div(q->out_channels, 8), 256, 0, stream>>>((const T *)w, scale, raw,
                                                                                   q->out_channels, s->sum_length);
        pack_chunks<<<(unsigned)blocks, 256, 0, stream>>>(
            (const T *)w, scale, (unsigned char *)packed, q->math, (int32_t)q->groups, (int32_t)s->group_in,
            (int32_t)s->group_out, (int32_t)q->kernel_size, tap_step,
            (int32_t)ceil_div(s->group_in, operand_channels(q->math)), (int32_t)(ceil_div(s->group_out, 64) * 64));
        return cudaGetLastError();
    });
}

/* ----------------------------------------------------------------------------------------------------------- launching */

static const void *kernel_for(const tapconv_shape *s, int form)
{
    switch (s->p.math) {
    case TAPCONV_MATH_F16: return mma_kernel_f16(s->p.type, form);
    case TAPCONV_MATH_BF16: return mma_kernel_bf16(s->p.type, form);
    case TAPCONV_MATH_TF32: return mma_kernel_tf32(s->p.type, form);
    default: return mma_kernel_f32(s->p.type, form);
    }
}

static size_t workspace_bytes(const tapconv_shape *, const tapconv_cuda_card *)
{
    return 0;
}

static cudaError_t launch(const tapconv_shape *s, const tapconv_cuda_card *card, const tapconv_cuda_conv *conv,
                          cudaStream_t stream)
{
    const tapconv_problem *q = &s->p;
    mma_plan plan{};
    if (!plan_for(s, card, conv->x, &plan)) return cudaErrorInvalidConfiguration;
    mma_params *p = &plan.p;
    p->x = conv->x, p->bias = conv->bias, p->out = conv->out;
    p->packed = (const unsigned char *)conv->packed;
    if (q->math == TAPCONV_MATH_F32) {
        p->row_scale = (const float *)(p->packed + chunk_bytes(s));
        p->raw = (const float *)((const unsigned char *)p->row_scale + scale_bytes(s));
    }
    const bool x_channels_last = q->layout == TAPCONV_NLC, y_channels_last = conv->out_layout == TAPCONV_NLC;
    p->x_item = q->in_channels * q->length, p->y_item = q->out_channels * s->out_length;
    p->x_channel = x_channels_last ? 1 : q->length, p->x_time = x_channels_last ? q->in_channels : 1;
    p->y_channel = y_channels_last ? 1 : s->out_length, p->y_time = y_channels_last ? q->out_channels : 1;
    const size_t run = 4 * tapconv_type_bytes(conv->out_type);
    p->aligned = s->out_length % 4 == 0 && (uintptr_t)conv->out % run == 0;
    p->out_type = conv->out_type, p->activation = conv->activation, p->param_type = q->param_type;

    const void *const kernel = kernel_for(s, plan.form);
    /* Always the most: another thread may be launching the same kernel with more than this problem needs. */
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, card->shared_bytes_per_block);
    if (error != cudaSuccess) return error;
    void *arguments[] = {p};
    return cudaLaunchKernel(kernel, dim3((unsigned)plan.blocks), dim3(384), arguments, (size_t)plan.shared_bytes,
                            stream);
}

static void describe(const tapconv_shape *s, const tapconv_cuda_card *card, tapconv_cuda_launch_info *info)
{
    mma_plan plan{};
    cudaFuncAttributes attributes;
    *info = tapconv_cuda_launch_info{};
    if (!plan_for(s, card, NULL, &plan)) return;
    info->blocks = plan.blocks, info->threads = 384;
    info->shared_bytes = (int32_t)plan.shared_bytes, info->blocks_per_multiprocessor = 1;
    if (card->device >= 0 && cudaFuncGetAttributes(&attributes, kernel_for(s, plan.form)) == cudaSuccess)
        info->registers = attributes.numRegs;
    snprintf(info->tile, sizeof info->tile, "%d channels x %d samples", mma_forms[plan.form].channels(),
             mma_forms[plan.form].samples());
}

extern "C" {
const tapconv_cuda_family tapconv_cuda_mma = {"mma", takes, workspace_bytes, packed_bytes, pack, launch, describe};
}
