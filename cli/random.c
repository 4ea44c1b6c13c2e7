#include "random.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "workers.h"

#define LAYERS 128
#define BLOCK 4096

/* Where the base layer of the ziggurat ends, and the area of each layer. */
static const double base_end = 3.442619855899, layer_area = 9.91256303526217e-3;

/* edge[i] is the right end of layer i, inner[i] the part of it that lies wholly under the curve. */
static double edge[LAYERS + 1], inner[LAYERS];

static void make_layers(void)
{
    double height = exp(-0.5 * base_end * base_end);
    edge[0] = layer_area / height;
    edge[1] = base_end;
    for (int i = 2; i < LAYERS; i++) {
        edge[i] = sqrt(-2 * log(layer_area / edge[i - 1] + height));
        height = exp(-0.5 * edge[i] * edge[i]);
    }
    edge[LAYERS] = 0;
    for (int i = 0; i < LAYERS; i++) inner[i] = edge[i + 1] / edge[i];
}

static uint64_t mix(uint64_t bits)
{
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

uint64_t random_bits(random_stream *stream)
{
    stream->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(stream->state);
}

random_stream random_start(uint64_t seed, uint64_t tensor, uint64_t block)
{
    random_stream stream = {seed};
    stream.state = random_bits(&stream) ^ tensor;
    stream.state = random_bits(&stream) ^ block;
    stream.state = random_bits(&stream);
    return stream;
}

static double unit_of(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double random_unit(random_stream *stream)
{
    return unit_of(random_bits(stream));
}

static double normal_tail(random_stream *stream, bool negative)
{
    double x, y;
    do {
        x = log(1 - random_unit(stream)) / base_end;
        y = log(1 - random_unit(stream));
    } while (-2 * y < x * x);
    return negative ? x - base_end : base_end - x;
}

static double normal(random_stream *stream)
{
    for (;;) {
        const uint64_t bits = random_bits(stream);
        const int layer = (int)(bits % LAYERS);
        const double u = 2 * unit_of(bits) - 1;
        if (fabs(u) < inner[layer]) return u * edge[layer];
        if (layer == 0) return normal_tail(stream, u < 0);
        const double x = u * edge[layer];
        const double low = exp(-0.5 * (edge[layer] * edge[layer] - x * x));
        const double high = exp(-0.5 * (edge[layer + 1] * edge[layer + 1] - x * x));
        if (high + random_unit(stream) * (low - high) < 1) return x;
    }
}

typedef struct fill {
    char *array;
    tapconv_type type;
    int64_t count;
    uint64_t seed, tensor;
    random_kind kind;
    double center, scale;
} fill;

static void fill_block(void *context, int64_t block, int worker)
{
    (void)worker;
    const fill *job = context;
    random_stream stream = random_start(job->seed, job->tensor, (uint64_t)block);
    const int64_t first = block * BLOCK;
    const int64_t count = job->count - first < BLOCK ? job->count - first : BLOCK;
    char *destination = job->array + (size_t)first * tapconv_type_bytes(job->type);
    float rounded[BLOCK];
    for (int64_t i = 0; i < count; i++) {
        const double z = job->kind == RANDOM_NORMAL ? normal(&stream) : 2 * random_unit(&stream) - 1;
        const double value = job->center + job->scale * z;
        if (job->type == TAPCONV_F64)
            memcpy(destination + (size_t)i * sizeof value, &value, sizeof value);
        else
            rounded[i] = (float)value;
    }
    if (job->type == TAPCONV_F32) {
        memcpy(destination, rounded, (size_t)count * sizeof(float));
    } else if (job->type != TAPCONV_F64) {
        /* Cannot fail: the types are legal and the arrays apart. */
        const tapconv_status status = tapconv_convert(destination, job->type, rounded, TAPCONV_F32, count);
        (void)status;
    }
}

void random_fill(void *array, tapconv_type type, int64_t count, uint64_t seed, uint64_t tensor, random_kind kind,
                 double center, double scale, int64_t threads)
{
    if (edge[0] == 0) make_layers();
    fill job = {array, type, count, seed, tensor, kind, center, scale};
    const int64_t blocks = (count + BLOCK - 1) / BLOCK;
    workers_run(workers_count(threads, blocks), blocks, fill_block, &job);
}
