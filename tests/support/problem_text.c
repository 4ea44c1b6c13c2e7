#include "problem_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 4, 5))) static void append(char *text, size_t size, size_t *length, const char *format,
                                                         ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text + *length, size - *length, format, arguments);
    va_end(arguments);
    if (n > 0) *length = (size_t)n < size - *length ? *length + (size_t)n : size - 1;
}

size_t problem_text(char *text, size_t size, const tapconv_problem *p)
{
    size_t n = 0;
#define APPEND(...) append(text, size, &n, __VA_ARGS__)
    APPEND("--shape %" PRId64 ",%" PRId64 ",%" PRId64 " --out-channels %" PRId64 " --kernel %" PRId64, p->batch,
           p->in_channels, p->length, p->out_channels, p->kernel_size);
    if (p->has_bias) APPEND(" --bias");
    if (p->stride != 1) APPEND(" --stride %" PRId64, p->stride);
    if (p->dilation != 1) APPEND(" --dilation %" PRId64, p->dilation);
    if (p->groups != 1) APPEND(" --groups %" PRId64, p->groups);
    if (p->padding_left || p->padding_right)
        APPEND(" --padding %" PRId64 ",%" PRId64, p->padding_left, p->padding_right);
    if (p->norm_groups) APPEND(" --norm-groups %" PRId64 " --eps %g", p->norm_groups, p->norm_eps);
    if (p->norm_affine) APPEND(" --affine");
    if (p->activation) APPEND(" --activation %s", tapconv_activation_name(p->activation));
    if (p->math) APPEND(" --math %s", tapconv_math_name(p->math));
    APPEND(" # type %s, param_type %s, layout %s", tapconv_type_name(p->type), tapconv_type_name(p->param_type),
           tapconv_layout_name(p->layout));
#undef APPEND
    return n;
}
