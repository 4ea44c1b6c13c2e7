/* The family "mma": which problems it takes, how a problem is cut into tiles, and the launch. The kernels are in mma.cuh. */
#include "cuda/mma.h"

#include <stdio.h>

/* A kernel and its tile. */
struct mma_form {
    int halves, groups_m; /* HALVES and WARPGROUPS_M of mma.cuh */
    int columns, blocks;
};
static const mma_form forms[MMA_FORMS] = {{2, 2, 128, 4}, {1, 2, 128, 2}, {1, 1, 256, 1}};

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

/* Shared memory of a form beside its windows. */
static int64_t other_bytes(const mma_form *form, tapconv_math math)
{
    const int stage = form->halves * operand_parts(math) * 64 * 128;
    return 1024 + MMA_FIXED_BYTES + 2 * mma_weight_stages(stage) * stage; /* 1024 to align it */
}

struct mma_plan {
    mma_params p;
    int form;
    int64_t shared_bytes, blocks;
};

static int cut(const tapconv_shape *s, const tapconv_cuda_card *card, int which, mma_plan *plan)
{
    const tapconv_problem *q = &s->p;
    const mma_form *form = &forms[which];
    mma_params *p = &plan->p;
    *p = mma_params{};
    plan->form = which;
    p->batch = (int32_t)q->batch, p->length = (int32_t)q->length;
    p->out_length = (int32_t)s->out_length, p->kernel_size = (int32_t)q->kernel_size;
    p->stride = (int32_t)q->stride, p->dilation = (int32_t)q->dilation, p->padding_left = (int32_t)q->padding_left;
    p->groups = (int32_t)q->groups, p->group_in = (int32_t)s->group_in, p->group_out = (int32_t)s->group_out;
    p->slabs = (int32_t)ceil_div(s->group_in, operand_channels(q->math));
    p->group_blocks = (int32_t)ceil_div(s->group_out, 64);
    p->row_tiles = (int32_t)ceil_div(p->group_blocks, form->blocks);
    if (p->group_blocks < form->halves) return 0;

    p->tap_step = (int32_t)(q->stride / greatest_common_divisor(q->stride, q->dilation));
    p->residues = p->tap_step < p->kernel_size ? p->tap_step : p->kernel_size;
    const int64_t row_step = (int64_t)p->tap_step * q->dilation / q->stride;
    const int64_t residue_taps = ceil_div(q->kernel_size, p->tap_step);
    const int64_t most_taps = MMA_MOST_HALO / row_step + 1;
    p->window_taps = (int32_t)(residue_taps < most_taps ? residue_taps : most_taps);
    p->row_step = (int32_t)row_step;
    const int64_t halo = (p->window_taps - 1) * row_step;
    p->window_rows = (int32_t)(form->columns + halo + 7) / 8 * 8;

    const int64_t apart = q->batch * ceil_div(s->out_length, form->columns);
    const int64_t merged = ceil_div(q->batch * (s->out_length + halo), form->columns);
    p->merged = merged * 8 < apart * 7; /* tiles of several items are slower to store */
    p->period = (int32_t)(p->merged ? s->out_length + halo : ceil_div(s->out_length, form->columns) * form->columns);
    p->period_divisor = fast_divisor((uint32_t)p->period);
    const int64_t tiles = (p->merged ? merged : apart) * q->groups * p->row_tiles;
    if (tiles > INT32_MAX / 2) return 0;
    p->tiles = (int32_t)tiles;

    const int64_t others = other_bytes(form, q->math);
    const int64_t window =
        (int64_t)p->window_rows * (operand_parts(q->math) * 128 + (q->math == TAPCONV_MATH_F32 ? 8 : 0));
    int64_t stages = (card->shared_bytes_per_block - others) / window;
    if (stages > MMA_MOST_STAGES) stages = MMA_MOST_STAGES;
    p->window_stages = (int32_t)stages;
    plan->shared_bytes = others + stages * window;
    plan->blocks = p->tiles < card->multiprocessors ? p->tiles : card->multiprocessors;
    return stages >= 2;
}

/* The form whose blocks are done first: a tile's time is as its products, tiles come in waves. */
static int plan_for(const tapconv_shape *s, const tapconv_cuda_card *card, mma_plan *best)
{
    int64_t best_time = 0;
    int found = 0;
    for (int i = 0; i < MMA_FORMS; i++) {
        mma_plan plan;
        if (!cut(s, card, i, &plan)) continue;
        const int64_t time = ceil_div(plan.p.tiles, card->multiprocessors) * forms[i].halves;
        if (found && time >= best_time) continue;
        *best = plan, best_time = time, found = 1;
    }
    return found;
}

static int takes(const tapconv_shape *s, const tapconv_cuda_card *card)
{
    const tapconv_problem *q = &s->p;
    const int64_t most = (int64_t)1 << 28;
    if (card->major != 9 || card->minor != 0 || q->math == TAPCONV_MATH_F64) return 0;
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
                                   int32_t tap_step, int32_t slabs, int32_t group_blocks)
{
    const int channels = math == TAPCONV_MATH_TF32 ? 32 : 64, parts = math == TAPCONV_MATH_F32 ? 2 : 1;
    const int64_t places = (int64_t)groups * slabs * kernel_size * group_blocks * 64 * channels;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; n < places; n += step) {
        const int place = (int)(n % channels), row = (int)(n / channels % 64);
        int64_t rest = n / channels / 64;
        const int64_t block_index = rest; /* over [group][slab][tap][block] */
        const int block = (int)(rest % group_blocks);
        rest /= group_blocks;
        const int turn = (int)(rest % kernel_size);
        rest /= kernel_size;
        const int slab = (int)(rest % slabs);
        const int64_t group = rest / slabs;
        /* Taps by residue of the stride: `longer` residues have one tap more than the others. */
        const int each = kernel_size / tap_step, longer = kernel_size % tap_step, in_longer = longer * (each + 1);
        const int tap = turn < in_longer ? turn / (each + 1) + turn % (each + 1) * tap_step
                                         : longer + (turn - in_longer) / each + (turn - in_longer) % each * tap_step;
        const int channel = slab * channels + place, out = block * 64 + row;
        const int64_t o = group * group_out + out;
        const bool there = channel < group_in && out < group_out;
        const float v = there ? load_as_f32(w + (o * group_in + channel) * kernel_size + tap) : 0.0f;
        unsigned char *const to = packed + block_index * parts * 64 * 128 + row * 128;
        const int piece = place * (128 / channels) / 16 ^ (row & 7), within = place * (128 / channels) % 16;
        unsigned char *const at = to + piece * 16 + within;
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
            *(__half *)(at + 64 * 128) = __float2half_rn(scaled - __half2float(high));
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
            (int32_t)ceil_div(s->group_in, operand_channels(q->math)), (int32_t)ceil_div(s->group_out, 64));
        return cudaGetLastError();
    });
}

/* ----------------------------------------------------------------------------------------------------------- launching */

static const void *kernel_for(const tapconv_shape *s, tapconv_type out_type, int form)
{
    switch (s->p.math) {
    case TAPCONV_MATH_F16: return mma_kernel_f16(s->p.type, out_type, form);
    case TAPCONV_MATH_BF16: return mma_kernel_bf16(s->p.type, out_type, form);
    case TAPCONV_MATH_TF32: return mma_kernel_tf32(s->p.type, out_type, form);
    default: return mma_kernel_f32(s->p.type, out_type, form);
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
    mma_plan plan;
    if (!plan_for(s, card, &plan)) return cudaErrorInvalidConfiguration;
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
    p->activation = conv->activation, p->param_type = q->param_type;

    const void *const kernel = kernel_for(s, conv->out_type, plan.form);
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
    const tapconv_type out_type = s->p.norm_groups > 0 ? TAPCONV_F32 : s->p.type;
    mma_plan plan;
    cudaFuncAttributes attributes;
    *info = tapconv_cuda_launch_info{};
    if (!plan_for(s, card, &plan)) return;
    info->blocks = plan.blocks, info->threads = 384;
    info->shared_bytes = (int32_t)plan.shared_bytes, info->blocks_per_multiprocessor = 1;
    if (card->device >= 0 && cudaFuncGetAttributes(&attributes, kernel_for(s, out_type, plan.form)) == cudaSuccess)
        info->registers = attributes.numRegs;
    snprintf(info->tile, sizeof info->tile, "%d channels x %d samples", forms[plan.form].blocks * 64,
             forms[plan.form].columns);
}

extern "C" {
const tapconv_cuda_family tapconv_cuda_mma = {"mma", takes, workspace_bytes, packed_bytes, pack, launch, describe};
}
