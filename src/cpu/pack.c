/* Packed weights: [group][block of up to 8 output channels][term][channel of the block], terms in the order of slabs.h, in
 * the real type, rounded to the math mode; a last block of fewer channels is that much narrower. The layout knows the
 * layer only, so one packed buffer serves every kernel and instruction set. */
#include "convert.h"
#include "cpu/cpu.h"
#include "cpu/slabs.h"

#include <math.h>

/* After the weights: what kernels may read past the end, and a flag that says whether all weights are finite. */
#define SLACK (2 * TAPCONV_BLOCK)

size_t tapconv_packed_elements(const tapconv_shape *shape)
{
    return (size_t)(shape->w_elements + SLACK);
}

static float round_operand(float value, tapconv_math math)
{
    switch (math) {
    case TAPCONV_MATH_TF32: return tapconv_f32_to_tf32(value);
    case TAPCONV_MATH_F16: return tapconv_f16_to_f32(tapconv_f32_to_f16(value));
    case TAPCONV_MATH_BF16: return tapconv_bf16_to_f32(tapconv_f32_to_bf16(value));
    default: return value;
    }
}

void tapconv_pack(const tapconv_cpu_plan *plan, const void *w, void *packed)
{
    const tapconv_shape *s = &plan->shape;
    const int64_t terms = s->sum_length;
    int64_t at = 0;
    int finite = 1;
    for (int64_t group = 0; group < s->p.groups; group++)
        for (int64_t block = 0; block < s->group_out; block += TAPCONV_BLOCK) {
            const int64_t rows = tapconv_min(TAPCONV_BLOCK, s->group_out - block);
            const int64_t first = (group * s->group_out + block) * terms;
            for (int64_t term = 0; term < terms; term++) {
                const int64_t source = tapconv_slab_term(s->p.kernel_size, term, terms);
                for (int64_t r = 0; r < rows; r++, at++) {
                    double value = tapconv_get(w, s->p.type, first + r * terms + source);
                    if (plan->real->bytes == 8)
                        ((double *)packed)[at] = value;
                    else
                        value = ((float *)packed)[at] = round_operand((float)value, s->p.math);
                    finite &= isfinite(value) != 0;
                }
            }
        }
    for (int64_t i = 0; i < SLACK; i++, at++) {
        const int flag = i == SLACK - 1 && finite;
        if (plan->real->bytes == 8)
            ((double *)packed)[at] = flag;
        else
            ((float *)packed)[at] = (float)flag;
    }
}

int tapconv_packed_finite(const tapconv_cpu_plan *plan, const void *packed)
{
    const int64_t at = plan->shape.w_elements + SLACK - 1;
    return plan->real->bytes == 8 ? ((const double *)packed)[at] != 0 : ((const float *)packed)[at] != 0;
}

const void *tapconv_packed_channel(const tapconv_cpu_plan *plan, const void *packed, int64_t channel, int64_t *step)
{
    const tapconv_shape *s = &plan->shape;
    const int64_t in_group = channel % s->group_out, in_block = in_group % TAPCONV_BLOCK;
    *step = tapconv_min(TAPCONV_BLOCK, s->group_out - (in_group - in_block));
    return (const char *)packed + ((channel - in_block) * s->sum_length + in_block) * plan->real->bytes;
}
