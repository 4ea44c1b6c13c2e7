/* Where the convolution's results go: to y at once, or to wait for GroupNorm. */
#include "cpu/cpu.h"

void *tapconv_conv_at(const tapconv_job *job, tapconv_span span, int64_t item, int64_t channel, int64_t time)
{
    const tapconv_cpu_plan *plan = job->plan;
    const int64_t flat = item * plan->shape.p.out_channels + channel;
    const int64_t bytes = plan->real->bytes, length = plan->shape.out_length;
    if (plan->conv_in_y) return (char *)job->arrays->y + (flat * length + time) * bytes;
    return job->workspace + plan->conv_at + (size_t)(((flat - span.first) * length + time) * bytes);
}

int64_t tapconv_stream_head(const tapconv_cpu_plan *plan, const void *out, int64_t rows)
{
    const int64_t bytes = plan->real->bytes, lanes = plan->real->lanes;
    if (!plan->stream || plan->shape.p.norm_groups > 0) return -1;
    if (rows > 1 && plan->shape.out_length % lanes != 0) return -1;
    return (lanes - (int64_t)((uintptr_t)out / (uintptr_t)bytes % (uintptr_t)lanes)) % lanes;
}

void tapconv_emit_conv(const tapconv_job *job, tapconv_span span, int64_t item, int64_t channel, int64_t time,
                       tapconv_emit out)
{
    const tapconv_cpu_plan *plan = job->plan;
    const tapconv_problem *p = &plan->shape.p;
    out.bias = job->bias64 ? job->bias64 + channel : NULL;
    if (p->norm_groups > 0) {
        out.dst = tapconv_conv_at(job, span, item, channel, time);
        out.dst_row = plan->shape.out_length, out.dst_step = 1;
        out.type = plan->real->bytes == 8 ? TAPCONV_F64 : TAPCONV_F32;
        out.activation = TAPCONV_ACT_NONE;
    } else {
        const int64_t length = plan->shape.out_length, channels = p->out_channels;
        const int ncl = p->layout == TAPCONV_NCL;
        const int64_t index = item * channels * length + (ncl ? channel * length + time : time * channels + channel);
        out.dst = (char *)job->arrays->y + (size_t)index * tapconv_type_bytes(p->type);
        out.dst_row = ncl ? length : 1, out.dst_step = ncl ? 1 : channels;
        out.type = p->type;
        out.activation = p->activation;
        out.stream = plan->stream;
    }
    plan->real->emit(&out);
}
