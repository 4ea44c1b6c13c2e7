/* Random layers through the public interface: every instruction set against the oracle, and the same bits from every
 * kernel family, thread count, batch size and length. */
#include "layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A layer with some of another's arrays. */
static layer share(const layer *l, const tapconv_problem *p)
{
    layer part = *l;
    if (tapconv_shape_from_problem(&part.shape, p) != TAPCONV_OK) check_fail("%s", tapconv_last_error());
    return part;
}

/* One item of the batch alone. */
static void check_item(const layer *l, uint32_t isa, const check_buffer *want)
{
    tapconv_problem p = l->shape.p;
    if (p.batch < 2) return;
    const int64_t item = check_between(0, p.batch - 1), size = (int64_t)tapconv_type_bytes(p.type);
    const int64_t x_item = l->shape.x_elements / p.batch, y_item = l->shape.y_elements / p.batch;
    p.batch = 1;
    layer one = share(l, &p);
    one.x = check_buffer_make((size_t)(x_item * size), (size_t)size);
    memcpy(one.x.data, l->x.data + item * x_item * size, one.x.bytes);
    const check_buffer part = {.data = want->data + item * y_item * size, .bytes = (size_t)(y_item * size)};
    const layer_call call = {.isa = isa, .threads = (int)check_between(1, 3)};
    layer_expect_same(&one, &call, &part);
    check_buffer_free(&one.x);
}

static int64_t index_of(const tapconv_problem *p, int64_t channels, int64_t length, int64_t item, int64_t channel,
                        int64_t time)
{
    return item * channels * length + (p->layout == TAPCONV_NCL ? channel * length + time : time * channels + channel);
}

/* Copies the first `keep` samples of every channel. */
static void copy_part(const tapconv_problem *p, int64_t channels, const char *from, int64_t from_length, char *to,
                      int64_t to_length, int64_t keep)
{
    const size_t size = tapconv_type_bytes(p->type);
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t t = 0; t < keep; t++)
                memcpy(to + (size_t)index_of(p, channels, to_length, n, c, t) * size,
                       from + (size_t)index_of(p, channels, from_length, n, c, t) * size, size);
}

/* The beginning of the input alone gives the same samples as far as they see nothing but it. */
static void check_beginning(const layer *l, uint32_t isa, const check_buffer *want)
{
    tapconv_problem p = l->shape.p;
    const int64_t length = p.length, reach = (p.kernel_size - 1) * p.dilation;
    if (p.norm_groups > 0 || p.batch == 0) return;
    p.length = check_between(0, length);
    p.padding_right = 0;
    int64_t out_length;
    if (tapconv_problem_check(&p, &out_length) != TAPCONV_OK) return; /* it is too short */
    const int64_t common = out_length;                                /* without padding on the right all of them */
    CHECK(common <= l->shape.out_length && (common - 1) * p.stride - p.padding_left + reach < p.length);
    const size_t size = tapconv_type_bytes(p.type);
    layer part = share(l, &p);
    part.x = check_buffer_make((size_t)part.shape.x_elements * size, 3 * size);
    copy_part(&p, p.in_channels, l->x.data, length, part.x.data, p.length, p.length);
    check_buffer same = check_buffer_make((size_t)part.shape.y_elements * size, 0);
    copy_part(&p, p.out_channels, want->data, l->shape.out_length, same.data, out_length, common);
    const layer_call call = {.isa = isa, .threads = (int)check_between(1, 3)};
    layer_expect_same(&part, &call, &same);
    check_buffer_free(&same);
    check_buffer_free(&part.x);
}

static void check_parts(const layer *l, uint32_t isa, const check_buffer *y)
{
    check_item(l, isa, y);
    check_beginning(l, isa, y);
}

static void check_layer(const tapconv_problem *p, int integers)
{
    layer l = layer_make(p, integers);
    layer_check(&l, check_parts);
    layer_free(&l);
}

/* Results so large that they are written past the caches. */
static void check_streamed(void)
{
    tapconv_problem p =
        tapconv_conv1d(1, 1, 5, 1300000 + check_between(0, 70), check_between(1, 3), check_between(0, 1));
    p.has_bias = check_chance(2);
    if (check_chance(2)) {
        p.groups = p.in_channels = 5;
    } else if (check_chance(3)) {
        p.norm_groups = 5;
    }
    if (check_chance(3)) p.activation = TAPCONV_ACT_RELU;
    check_layer(&p, 0);
}

int main(int argc, char **argv)
{
    const int64_t rounds = check_begin(argc, argv, 60);
    for (int64_t round = 0; round < rounds; round++) {
        const tapconv_problem p = layer_random_problem(round % 4 == 0 ? 1e7 : 1e6);
        check_layer(&p, check_chance(3));
        if (round % 40 == 20) check_streamed();
    }
    return check_end();
}
