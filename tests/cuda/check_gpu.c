/* Checks every kernel family of the CUDA engine on a card against the float64 oracle, through tapconv.h alone.
 *
 *     check_gpu [--seed N] [--layers N] [--first N] [--seconds S] [--threads N] [--families A,B]
 *               [--repeats N] [--exact]
 *
 * Each layer is made from the seed and its number; `--first NUMBER --layers 1` repeats one. Of each family that takes the
 * layer, and of the engine's own choice ("chosen"): outputs against the oracle, every output written, nothing written
 * beyond y, workspace and packed weights, the same bits when repeated (--repeats says how often; 1), from a captured graph,
 * of an item alone and of a shorter input. --exact leaves out poison and guards, for compute-sanitizer, whose own checks
 * they would blind. */
#include "gpu_layer.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_FAMILIES 16
#define GUARD ((size_t)256)
#define POISON 0xff
#define MOST_COMPLAINTS 40

static const tapconv_plan_options cuda = {.device = TAPCONV_CUDA};

/* What the threads share; under the lock. */
static struct {
    pthread_mutex_t lock;
    uint64_t seed;
    int64_t next, end, repeats, checked, failures;
    double seconds, began;
    int exact;
    const char *families[MOST_FAMILIES + 1];
    int family_count;
    struct {
        int64_t layers, failures;
        double worst;
    } rows[MOST_FAMILIES + 1][TAPCONV_MATH_COUNT];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .seed = 1, .end = 500, .repeats = 1, .seconds = 1e9};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(tapconv_status status, const char *what)
{
    if (status == TAPCONV_OK) return;
    fprintf(stderr, "%s: %s\n", what, tapconv_last_error());
    _Exit(2); /* other threads run */
}

/* --------------------------------------------------------------------------------------------------- memory of a card */
/* Bytes between poisoned guards. */
typedef struct card_array {
    void *memory;
    char *data;
    size_t bytes, before, after;
} card_array;

static card_array card_make(size_t bytes, size_t misaligned)
{
    card_array a = {.bytes = bytes, .before = misaligned, .after = 0};
    if (!all.exact) a.before += GUARD, a.after = GUARD;
    must(tapconv_device_allocate(&cuda, &a.memory, a.before + bytes + a.after), "allocating");
    a.data = (char *)a.memory + a.before;
    return a;
}

static void card_poison(const card_array *a)
{
    if (!all.exact) must(tapconv_device_fill(&cuda, a->memory, POISON, a->before + a->bytes + a->after), "filling");
}

static card_array card_copy(const void *host, size_t bytes, size_t misaligned)
{
    const card_array a = card_make(bytes, misaligned);
    card_poison(&a);
    if (bytes > 0) must(tapconv_device_upload(&cuda, a.data, host, bytes), "uploading");
    return a;
}

static void card_free(card_array *a)
{
    must(tapconv_device_free(&cuda, a->memory), "freeing");
}

/* Brings the data to the host; 0 if a guard was written to. */
static int card_fetch(const card_array *a, void *data)
{
    const size_t whole = a->before + a->bytes + a->after;
    unsigned char *const bytes = gpu_allocated((int64_t)whole, 1);
    int kept = 1;
    if (all.exact) {
        if (a->bytes > 0) must(tapconv_device_download(&cuda, bytes + a->before, a->data, a->bytes), "downloading");
    } else {
        must(tapconv_device_download(&cuda, bytes, a->memory, whole), "downloading");
        for (size_t i = 0; i < a->before; i++) kept &= bytes[i] == POISON;
        for (size_t i = a->before + a->bytes; i < whole; i++) kept &= bytes[i] == POISON;
    }
    if (data) memcpy(data, bytes + a->before, a->bytes);
    free(bytes);
    return kept;
}

/* ---------------------------------------------------------------------------------------------------------- one layer */
typedef struct run {
    const gpu_layer *layer;
    int family;
    int failed;
} run;

static void complain(run *r, const char *what)
{
    r->failed = 1;
    pthread_mutex_lock(&all.lock);
    if (all.failures++ < MOST_COMPLAINTS)
        printf("FAILED %s: %s\n    %s\n", all.families[r->family] ? all.families[r->family] : "chosen", what,
               r->layer->text);
    fflush(stdout);
    pthread_mutex_unlock(&all.lock);
}

/* Arrays of a layer on the card. */
typedef struct card_layer {
    card_array x, w, bias, gamma, beta, packed;
} card_layer;

/* Bytes of y that no kernel wrote: a kernel's NaN has other bits. */
static int64_t untouched(const tapconv_problem *p, const unsigned char *y, int64_t count)
{
    static const unsigned char poison[8] = {POISON, POISON, POISON, POISON, POISON, POISON, POISON, POISON};
    const size_t size = tapconv_type_bytes(p->type);
    for (int64_t i = 0; i < count && !all.exact; i++)
        if (memcmp(y + (size_t)i * size, poison, size) == 0) return i;
    return -1;
}

/* Nobody waits for the device while a graph is captured: it would break the capture. */
static pthread_rwlock_t capture = PTHREAD_RWLOCK_INITIALIZER;

/* Poisoned memory for y and workspace, and all that execute takes. */
typedef struct card_call {
    card_array y, work;
    tapconv_arrays arrays;
} card_call;

static card_call call_make(const run *r, const tapconv_plan *plan, const tapconv_problem *p, size_t y_bytes,
                           const card_array *x, const card_layer *c)
{
    const size_t work_bytes = tapconv_workspace_bytes(plan);
    card_call call = {.y = card_make(y_bytes, (size_t)r->layer->misaligned * tapconv_type_bytes(p->type)),
                      .work = card_make(work_bytes, all.exact ? 0 : (size_t)r->layer->misaligned)};
    call.arrays = (tapconv_arrays){.x = p->length > 0 ? x->data : NULL,
                                   .packed_weights = c->packed.data,
                                   .bias = c->bias.data,
                                   .gamma = c->gamma.data,
                                   .beta = c->beta.data,
                                   .y = call.y.data,
                                   .workspace = work_bytes > 0 ? call.work.data : NULL,
                                   .workspace_bytes = work_bytes};
    card_poison(&call.y);
    card_poison(&call.work);
    return call;
}

static void call_free(card_call *call)
{
    card_free(&call->y);
    card_free(&call->work);
}

/* Executes and waits, or executes twice from a captured graph; fails the run, and gives 0, where that is refused. */
static int execute(run *r, const tapconv_plan *plan, const card_call *call, int graph)
{
    double seconds;
    tapconv_status status;
    if (graph) {
        pthread_rwlock_wrlock(&capture);
        status = tapconv_device_time(plan, &call->arrays, 1, TAPCONV_TIME_GRAPH, 1, &seconds, 1);
    } else {
        status = tapconv_execute(plan, &call->arrays);
        pthread_rwlock_rdlock(&capture);
        if (status == TAPCONV_OK) status = tapconv_device_synchronize(&cuda);
    }
    pthread_rwlock_unlock(&capture);
    if (status == TAPCONV_OK) return 1;
    char text[320];
    snprintf(text, sizeof text, "execute: %s", tapconv_last_error());
    complain(r, text);
    if (status == TAPCONV_DEVICE_ERROR) _Exit(1); /* nothing after it would mean anything, and other threads run */
    return 0;
}

/* Computes y of a problem over `x`. Fails the run where it must; NULL where there is no result. */
static void *compute(run *r, const tapconv_plan *plan, const tapconv_problem *p, int64_t out_length,
                     const card_array *x, const card_layer *c, int graph)
{
    const size_t size = tapconv_type_bytes(p->type);
    const int64_t count = p->batch * p->out_channels * out_length;
    card_call call = call_make(r, plan, p, (size_t)count * size, x, c);
    void *result = NULL;
    if (execute(r, plan, &call, graph)) {
        result = gpu_allocated(count, size);
        if (!card_fetch(&call.y, result)) complain(r, "wrote beside y");
        if (!all.exact && !card_fetch(&call.work, NULL)) complain(r, "wrote beside the workspace");
        const int64_t at = untouched(p, result, count);
        if (at >= 0) {
            char text[80];
            snprintf(text, sizeof text, "y[%" PRId64 "] was not written%s", at, graph ? " from a graph" : "");
            complain(r, text);
        }
    }
    call_free(&call);
    return result;
}

/* The same bits, NaNs excepted. */
static int same(tapconv_type type, const void *a, const void *b)
{
    if (memcmp(a, b, tapconv_type_bytes(type)) == 0) return 1;
    double one, other;
    must(tapconv_convert(&one, TAPCONV_F64, a, type, 1), "widening");
    must(tapconv_convert(&other, TAPCONV_F64, b, type, 1), "widening");
    return isnan(one) && isnan(other);
}

static void expect_same(run *r, const void *got, const void *want, int64_t count, const char *what)
{
    const tapconv_type type = r->layer->p.type;
    const size_t size = tapconv_type_bytes(type);
    if (!got) return;
    for (int64_t i = 0; i < count; i++)
        if (!same(type, (const char *)got + (size_t)i * size, (const char *)want + (size_t)i * size)) {
            char text[160];
            snprintf(text, sizeof text, "%s: other bits at %" PRId64, what, i);
            complain(r, text);
            return;
        }
}

/* Again and again into the same memory, poisoned before each time. */
static void check_repeats(run *r, const tapconv_plan *plan, const card_layer *c, const void *y)
{
    const tapconv_problem *const p = &r->layer->p;
    const size_t bytes = (size_t)r->layer->y_count * tapconv_type_bytes(p->type);
    card_call call = call_make(r, plan, p, bytes, &c->x, c);
    void *const again = gpu_allocated((int64_t)bytes, 1);
    for (int64_t i = 1; i <= all.repeats && !r->failed; i++) {
        card_poison(&call.y);
        if (!execute(r, plan, &call, 0)) break;
        must(tapconv_device_download(&cuda, again, call.y.data, bytes), "downloading");
        if (memcmp(again, y, bytes) == 0) continue;
        char text[48];
        snprintf(text, sizeof text, "repeated, time %" PRId64, i);
        expect_same(r, again, y, r->layer->y_count, text);
    }
    free(again);
    call_free(&call);
}

static tapconv_plan *plan_for(run *r, const tapconv_problem *p)
{
    tapconv_plan *plan = NULL;
    tapconv_plan_options options = cuda;
    options.kernel = all.families[r->family];
    return tapconv_plan_create(&plan, p, &options) == TAPCONV_OK ? plan : NULL;
}

/* The last item by itself. */
static void check_alone(run *r, const card_layer *c, const char *y)
{
    const gpu_layer *const l = r->layer;
    const size_t size = tapconv_type_bytes(l->p.type);
    const int64_t x_item = l->p.in_channels * l->p.length, y_item = l->p.out_channels * l->out_length;
    tapconv_problem p = l->p;
    p.batch = 1;
    tapconv_plan *const plan = plan_for(r, &p);
    if (!plan) return; /* a family may leave a single item to another */
    card_array x = card_copy((const char *)l->x + (size_t)(x_item * (l->p.batch - 1)) * size, (size_t)x_item * size, 0);
    void *const alone = compute(r, plan, &p, l->out_length, &x, c, 0);
    expect_same(r, alone, y + (size_t)(y_item * (l->p.batch - 1)) * size, y_item, "an item alone");
    free(alone);
    card_free(&x);
    tapconv_plan_destroy(plan);
}

/* The beginning of the input by itself: outputs that do not see its end are the same. */
static void check_shorter(run *r, const card_layer *c, const char *y)
{
    const gpu_layer *const l = r->layer;
    const size_t size = tapconv_type_bytes(l->p.type);
    tapconv_problem p = l->p;
    int64_t out_length;
    p.length = l->p.length - 1 - l->p.length / 3;
    if (p.length < 1 || tapconv_problem_check(&p, &out_length) != TAPCONV_OK || out_length < 1) return;
    tapconv_plan *const plan = plan_for(r, &p);
    if (!plan) return;
    const int ncl = p.layout == TAPCONV_NCL;
    const int64_t rows = ncl ? p.batch * p.in_channels : p.batch, step = ncl ? 1 : p.in_channels;
    const size_t bytes = (size_t)(p.length * step) * size, whole = (size_t)(l->p.length * step) * size;
    char *const host = gpu_allocated(rows, bytes);
    for (int64_t i = 0; i < rows; i++) memcpy(host + (size_t)i * bytes, (const char *)l->x + (size_t)i * whole, bytes);
    card_array x = card_copy(host, (size_t)rows * bytes, 0);
    char *const got = compute(r, plan, &p, out_length, &x, c, 0);
    for (int64_t item = 0; got && item < p.batch; item++)
        for (int64_t o = 0; o < p.out_channels; o++)
            for (int64_t t = 0; t < out_length && t < l->out_length; t++) {
                if (t * p.stride - p.padding_left + (p.kernel_size - 1) * p.dilation >= p.length) break;
                const int64_t from =
                    ncl ? (item * p.out_channels + o) * out_length + t : (item * out_length + t) * p.out_channels + o;
                const int64_t to = ncl ? (item * p.out_channels + o) * l->out_length + t
                                       : (item * l->out_length + t) * p.out_channels + o;
                if (same(p.type, got + (size_t)from * size, y + (size_t)to * size)) continue;
                complain(r, "a shorter input gives other bits");
                item = p.batch, o = p.out_channels;
                break;
            }
    free(got);
    free(host);
    card_free(&x);
    tapconv_plan_destroy(plan);
}

/* 1 if the family takes the layer; `*worst` is its largest error as a part of what is allowed. */
static int check_family(run *r, card_layer *c, int64_t number, double *worst)
{
    const gpu_layer *const l = r->layer;
    tapconv_plan *const plan = plan_for(r, &l->p);
    if (!plan) {
        if (!all.families[r->family] || strcmp(all.families[r->family], "general") == 0)
            complain(r, tapconv_last_error());
        return 0;
    }
    const size_t packed_bytes = tapconv_packed_weights_bytes(plan);
    c->packed = card_make(packed_bytes, 0);
    card_poison(&c->packed);
    if (tapconv_pack_weights(plan, c->w.data, c->packed.data, packed_bytes) != TAPCONV_OK) {
        complain(r, tapconv_last_error());
    } else {
        char *const y = compute(r, plan, &l->p, l->out_length, &c->x, c, 0);
        char complaint[256];
        if (y) *worst = gpu_layer_compare(l, y, complaint);
        if (y && !(*worst <= 1)) complain(r, complaint);
        if (y && !r->failed) {
            check_repeats(r, plan, c, y);
            if (number % 4 == 0) {
                void *const graph = compute(r, plan, &l->p, l->out_length, &c->x, c, 1);
                expect_same(r, graph, y, l->y_count, "from a graph");
                free(graph);
            }
            if (l->p.batch > 1) check_alone(r, c, y);
            if (l->p.norm_groups == 0) check_shorter(r, c, y);
            if (!all.exact && !card_fetch(&c->packed, NULL)) complain(r, "wrote beside the packed weights");
        }
        free(y);
    }
    card_free(&c->packed);
    tapconv_plan_destroy(plan);
    return 1;
}

static card_array card_param(const void *host, const tapconv_problem *p)
{
    if (!host) return (card_array){0};
    return card_copy(host, (size_t)p->out_channels * tapconv_type_bytes(p->param_type), 0);
}

static void check_layer(int64_t number)
{
    gpu_layer l = gpu_layer_make(all.seed, number);
    gpu_layer_judge(&l);
    const size_t size = tapconv_type_bytes(l.p.type);
    card_layer c = {
        .x = card_copy(l.x, (size_t)l.x_count * size, (size_t)l.misaligned * size),
        .w = card_copy(l.w, (size_t)l.w_count * size, 0),
        .bias = card_param(l.bias, &l.p),
        .gamma = card_param(l.gamma, &l.p),
        .beta = card_param(l.beta, &l.p),
    };
    for (int f = 0; f < all.family_count; f++) {
        run r = {.layer = &l, .family = f};
        double worst = 0;
        const int taken = check_family(&r, &c, number, &worst);
        pthread_mutex_lock(&all.lock);
        all.rows[f][l.p.math].layers += taken;
        all.rows[f][l.p.math].failures += r.failed;
        if (worst > all.rows[f][l.p.math].worst) all.rows[f][l.p.math].worst = worst;
        pthread_mutex_unlock(&all.lock);
    }
    card_array *const arrays[] = {&c.x, &c.w, &c.bias, &c.gamma, &c.beta};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) card_free(arrays[i]);
    gpu_layer_free(&l);
}

static void *work(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&all.lock);
        const int64_t number = now() - all.began < all.seconds && all.next < all.end ? all.next++ : -1;
        pthread_mutex_unlock(&all.lock);
        if (number < 0) return NULL;
        check_layer(number);
        pthread_mutex_lock(&all.lock);
        all.checked++;
        pthread_mutex_unlock(&all.lock);
    }
}

/* ----------------------------------------------------------------------------------------------------------- the whole */
static int wanted(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == 0 || at[length] == ',')) return 1;
    return !list;
}

static int report(void)
{
    printf("%-12s %-5s %7s %12s %9s\n", "family", "math", "layers", "error/bound", "failures");
    int64_t layers = 0;
    for (int f = 0; f < all.family_count; f++)
        for (int m = 0; m < TAPCONV_MATH_COUNT; m++) {
            if (all.rows[f][m].layers == 0 && all.rows[f][m].failures == 0) continue;
            printf("%-12s %-5s %7" PRId64 " %12.3f %9" PRId64 "\n", all.families[f] ? all.families[f] : "chosen",
                   tapconv_math_name((tapconv_math)m), all.rows[f][m].layers, all.rows[f][m].worst,
                   all.rows[f][m].failures);
            layers += all.rows[f][m].layers;
        }
    printf("%" PRId64 " layers of seed %" PRIu64 ", repeated %" PRId64 " times, in %.0f s, %" PRId64 " failures\n",
           all.checked, all.seed, all.repeats, now() - all.began, all.failures);
    return layers == 0 || all.failures > 0;
}

int main(int argc, char **argv)
{
    int64_t threads = 16, layers = 500;
    const char *families = NULL;
    for (int i = 1; i < argc; i++) {
        const char *const value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--exact") == 0) {
            all.exact = 1;
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0)
            all.seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--layers") == 0)
            layers = strtoll(value, NULL, 10);
        else if (strcmp(argv[i], "--first") == 0)
            all.next = strtoll(value, NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            all.seconds = strtod(value, NULL);
        else if (strcmp(argv[i], "--threads") == 0)
            threads = strtoll(value, NULL, 10);
        else if (strcmp(argv[i], "--repeats") == 0)
            all.repeats = strtoll(value, NULL, 10);
        else if (strcmp(argv[i], "--families") == 0)
            families = value;
        else {
            fprintf(stderr,
                    "usage: %s [--seed N] [--layers N] [--first N] [--seconds S] [--threads N] "
                    "[--families A,B] [--repeats N] [--exact]\n",
                    argv[0]);
            return 2;
        }
        i++;
    }
    tapconv_device_info info;
    must(tapconv_device_describe(&cuda, &info), "the card");
    printf("%s\n", info.name);
    for (int32_t i = 0; tapconv_device_kernel_name(&cuda, i) && i < MOST_FAMILIES; i++)
        if (wanted(families, tapconv_device_kernel_name(&cuda, i)))
            all.families[all.family_count++] = tapconv_device_kernel_name(&cuda, i);
    if (wanted(families, "chosen")) all.families[all.family_count++] = NULL;
    all.end = all.next + layers;
    all.began = now();
    pthread_t workers[64];
    if (threads < 1 || threads > 64) threads = 16;
    for (int64_t i = 0; i < threads; i++)
        if (pthread_create(&workers[i], NULL, work, NULL) != 0) {
            fprintf(stderr, "no thread\n");
            return 2;
        }
    for (int64_t i = 0; i < threads; i++) pthread_join(workers[i], NULL);
    return report();
}
