/* tapconv: the 1-D convolution layers of sequence models.
 *
 *     y = activation( GroupNorm( bias + conv1d(x, w) ) )      GroupNorm, bias and activation each optional
 *
 * Shapes     x (N, C_in, T)   w (C_out, C_in/groups, K)   y (N, C_out, T_out)      layout NCL, the default
 *            x (N, T, C_in)   w (C_out, C_in/groups, K)   y (N, T_out, C_out)      layout NLC
 *            bias, gamma, beta (C_out)
 *            T_out = floor((T + L + R - D*(K-1) - 1) / S) + 1
 *            N batch, T length in samples per channel, K kernel size, S stride, D dilation, L and R zeros padded left
 *            and right. Arrays are dense and row-major: the last index is contiguous.
 * Formula    conv(n, o, t) = sum over c, k of w[o, c, k] * x[n, g*C_in/groups + c, t*S + k*D - L], x = 0 outside [0, T),
 *            g = o / (C_out/groups). It is cross-correlation, as in PyTorch: w[.., K-1] meets the newest sample.
 *            GroupNorm's mean and (population) variance run over the C_out/G channels and T_out samples of each group
 *            of each item; Wu and He, "Group Normalization", 2018.
 *
 * Use        Describe, plan, pack, execute:
 *
 *     tapconv_problem p = tapconv_causal_conv1d(1, 256, 256, 8192, 4, 1);
 *     tapconv_plan *plan;
 *     if (tapconv_plan_create(&plan, &p, NULL) != TAPCONV_OK) puts(tapconv_last_error());
 *     void *packed = malloc(tapconv_packed_weights_bytes(plan)), *work = malloc(tapconv_workspace_bytes(plan));
 *     tapconv_pack_weights(plan, w, packed, tapconv_packed_weights_bytes(plan));
 *     tapconv_arrays a = {.x = x, .packed_weights = packed, .y = y, .workspace = work,
 *                         .workspace_bytes = tapconv_workspace_bytes(plan)};
 *     tapconv_execute(plan, &a);                       (as often as wanted)
 *     tapconv_plan_destroy(plan);
 *
 * Memory     Every array is the caller's, in host memory for CPU plans and in the device's memory for CUDA plans, aligned for
 *            its element type; the library keeps none of them beyond the call. y may overlap no other array.
 * GPUs       A plan of device TAPCONV_CUDA computes on one GPU; several GPUs may be used in one process, and the calling
 *            thread's current device is as it was after every call. The engine is a shared object of its own,
 *            libtapconv_cuda.so, loaded from beside the library when a CUDA device is first asked for.
 * Threads    Functions without a plan may be called from any thread. A plan is immutable: any number of threads may
 *            execute one plan at once, each with its own workspace and y. tapconv_plan_destroy waits for nobody.
 * Errors     A call that fails returns a status other than TAPCONV_OK, changes nothing that the caller can see, and
 *            leaves a sentence for tapconv_last_error(). Nothing aborts and nothing prints.
 * Same bits  For one library build, instruction set and math mode, an item's result depends neither on the batch size
 *            nor on the thread count nor on the run; without GroupNorm, an output sample does not depend on T either.
 *            Where a result is NaN it is NaN every time, but of any sign and payload.
 */
#ifndef TAPCONV_H
#define TAPCONV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAPCONV_VERSION_MAJOR 0
#define TAPCONV_VERSION_MINOR 1
#define TAPCONV_VERSION_PATCH 0

#if defined(TAPCONV_STATIC)
#define TAPCONV_API
#elif defined(__GNUC__)
#define TAPCONV_API __attribute__((visibility("default")))
#else
#define TAPCONV_API
#endif

#if defined(__GNUC__)
#define TAPCONV_CHECK_RESULT __attribute__((warn_unused_result))
#else
#define TAPCONV_CHECK_RESULT
#endif

/* ------------------------------------------------------------------------------------------------ status and version */

typedef enum tapconv_status {
    TAPCONV_OK = 0,
    TAPCONV_INVALID_ARGUMENT =
        1, /* a value that is not allowed; the sentence names it, its value and what is allowed */
    TAPCONV_OUT_OF_MEMORY = 2,
    TAPCONV_NO_DEVICE = 3,   /* the device is not there, or there is no engine for it */
    TAPCONV_DEVICE_ERROR = 4 /* a GPU or its driver refused; the sentence has its own words */
} tapconv_status;

/* "major.minor.patch" of the library that runs, which may differ from the header's. */
TAPCONV_API const char *tapconv_version(void);

/* The sentence for the calling thread's latest failed call; "" before the first. Valid until the thread's next failed
 * call. Never NULL. */
TAPCONV_API const char *tapconv_last_error(void);

/* ------------------------------------------------------------------------------------------------- describing a layer */

/* The types of arrays. f16 is IEEE binary16, bf16 the upper half of a float32. */
typedef enum tapconv_type { TAPCONV_F32 = 0, TAPCONV_F64 = 1, TAPCONV_F16 = 2, TAPCONV_BF16 = 3 } tapconv_type;

/* What the arithmetic promises. Precision is asked for, never assumed.
 *   F32   float32 products and sums; sums of more than 64 terms are made of short partial sums.  Types f32, f16, bf16.
 *   TF32  operands rounded to the nearest TF32 (8 exponent, 10 fraction bits; ties away from zero, as the GPU's own
 *         conversion does), float32 sums. Explains a GPU's TF32 result on any machine.           Types f32, f16, bf16.
 *   F16   operands as stored in f16, or rounded to it from f32; float32 sums, rounded once.      Types f16, f32.
 *   BF16  the same for bf16.                                                                     Types bf16, f32.
 *   F64   float64 throughout, rounded once to the type of y.                                     Any type; CPU only. */
typedef enum tapconv_math {
    TAPCONV_MATH_F32 = 0,
    TAPCONV_MATH_TF32 = 1,
    TAPCONV_MATH_F16 = 2,
    TAPCONV_MATH_BF16 = 3,
    TAPCONV_MATH_F64 = 4
} tapconv_math;

typedef enum tapconv_layout { TAPCONV_NCL = 0, TAPCONV_NLC = 1 } tapconv_layout;

/* Applied last, to v, the value after bias and GroupNorm. In float32 each is within 2 ulp of the formula. */
typedef enum tapconv_activation {
    TAPCONV_ACT_NONE = 0,
    TAPCONV_ACT_RELU = 1,      /* max(v, 0); NaN stays NaN */
    TAPCONV_ACT_SILU = 2,      /* v * sigmoid(v) */
    TAPCONV_ACT_GELU = 3,      /* v/2 * (1 + erf(v/sqrt(2))) */
    TAPCONV_ACT_GELU_TANH = 4, /* v/2 * (1 + tanh(sqrt(2/pi) * (v + 0.044715 v^3))) */
    TAPCONV_ACT_MISH = 5,      /* v * tanh(log(1 + exp(v))) */
    TAPCONV_ACT_TANH = 6,
    TAPCONV_ACT_SIGMOID = 7,
    TAPCONV_ACT_ELU = 8,       /* v > 0 ? v : exp(v) - 1 */
    TAPCONV_ACT_LEAKY_RELU = 9 /* v > 0 ? v : 0.01 * v */
} tapconv_activation;

#define TAPCONV_TYPE_COUNT 4
#define TAPCONV_MATH_COUNT 5
#define TAPCONV_LAYOUT_COUNT 2
#define TAPCONV_ACTIVATION_COUNT 10

/* A layer and the sizes it is used with. Fill it with one of the functions below, then change fields; a field that no
 * function sets has the default of the right-hand column. */
typedef struct tapconv_problem {
    int64_t batch;                 /* N >= 0; 0 gives an empty result */
    int64_t in_channels;           /* C_in >= 1 */
    int64_t out_channels;          /* C_out >= 1 */
    int64_t length;                /* T >= 0 samples per channel */
    int64_t kernel_size;           /* K >= 1 taps */
    int64_t stride;                /* S >= 1                                                     default 1 */
    int64_t dilation;              /* D >= 1                                                     default 1 */
    int64_t groups;                /* >= 1, divides C_in and C_out                               default 1 */
    int64_t padding_left;          /* L >= 0 zeros before the first sample                       default 0 */
    int64_t padding_right;         /* R >= 0 zeros after the last sample                         default 0 */
    int64_t norm_groups;           /* G of GroupNorm, divides C_out; 0: no GroupNorm             default 0 */
    double norm_eps;               /* >= 0, finite; read only if norm_groups > 0                 default 1e-5 */
    int32_t norm_affine;           /* 1: gamma and beta are given at execute; 0: they are 1 and 0 default 0 */
    int32_t has_bias;              /* 1: bias is given at execute                                default 0 */
    tapconv_activation activation; /*                                                    default none */
    tapconv_layout layout;         /* of x and y; w is (C_out, C_in/groups, K) in both   default NCL */
    tapconv_type type;             /* of x, w and y                                      default f32 */
    tapconv_type param_type;       /* of bias, gamma and beta: `type` or f32             default f32 */
    tapconv_math math;             /*                                                    default F32 */
    int32_t reserved[5];           /* 0 */
} tapconv_problem;

/* A convolution with `padding` zeros on both sides, no bias, no GroupNorm, no activation. */
TAPCONV_API tapconv_problem tapconv_conv1d(int64_t batch, int64_t in_channels, int64_t out_channels, int64_t length,
                                           int64_t kernel_size, int64_t padding);

/* The same, causal: (K-1)*D zeros on the left, none on the right, so that y[t] sees no sample after x[t]. */
TAPCONV_API tapconv_problem tapconv_causal_conv1d(int64_t batch, int64_t in_channels, int64_t out_channels,
                                                  int64_t length, int64_t kernel_size, int64_t dilation);

/* A convolution with `padding` zeros on both sides followed by an affine GroupNorm of `norm_groups` groups. */
TAPCONV_API tapconv_problem tapconv_conv1d_groupnorm(int64_t batch, int64_t in_channels, int64_t out_channels,
                                                     int64_t length, int64_t kernel_size, int64_t padding,
                                                     int64_t norm_groups);

/* TAPCONV_OK if the problem is legal. `out_length` (may be NULL) receives T_out. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_problem_check(const tapconv_problem *problem,
                                                                      int64_t *out_length);

/* The lower-case names of the command line and the results ("f32", "gelu-tanh", "nlc"); NULL for a value that is none. */
TAPCONV_API const char *tapconv_type_name(tapconv_type type);
TAPCONV_API const char *tapconv_math_name(tapconv_math math);
TAPCONV_API const char *tapconv_layout_name(tapconv_layout layout);
TAPCONV_API const char *tapconv_activation_name(tapconv_activation activation);

/* Bytes of one element; 0 for a value that is no type. */
TAPCONV_API size_t tapconv_type_bytes(tapconv_type type);

/* ------------------------------------------------------------------------------------------------------------ planning */

typedef enum tapconv_device { TAPCONV_CPU = 0, TAPCONV_CUDA = 1 } tapconv_device;

/* Instruction sets of the CPU engine, as bits of a mask. */
#define TAPCONV_ISA_SCALAR 1u /* plain C; always there */
#define TAPCONV_ISA_NEON 2u   /* AArch64 */
#define TAPCONV_ISA_AVX2 4u   /* AVX2, FMA and F16C */
#define TAPCONV_ISA_AVX512 8u /* AVX-512 F, BW, DQ and VL */

/* The sets that this machine can run and this build has kernels for. */
TAPCONV_API uint32_t tapconv_cpu_features(void);

/* "avx512" for TAPCONV_ISA_AVX512 and so on; NULL for anything but one of the bits above. */
TAPCONV_API const char *tapconv_isa_name(uint32_t isa);

/* How to plan; NULL or all zero means the defaults. */
typedef struct tapconv_plan_options {
    tapconv_device device; /* default: CPU */
    int32_t device_index;  /* of several GPUs; 0 for the CPU */
    int32_t threads;       /* most threads an execute may use; 0: one a core. Small problems use fewer. */
    uint32_t isa_mask;     /* allow only these instruction sets; 0: all. The widest that is left is used. */
    const char *kernel;    /* for tests: force the kernel family of this name (see tapconv_kernel_name); NULL: choose */
    const char *card; /* CUDA: plan for this card (see tapconv_card_name) as a table describes it, whether it is there
                              or not. Such a plan explains itself and does not execute. NULL: the device's own card */
    const char
        *engine_path;    /* CUDA: the engine's shared object, instead of the one beside the library. A process has one
                                engine: another path is refused once an engine is loaded. NULL: find it */
    int32_t reserved[6]; /* 0 */
} tapconv_plan_options;

typedef struct tapconv_plan tapconv_plan;

/* Plans a problem: chooses the kernel, lays out the workspace. `*plan` is the caller's to destroy; it stays untouched on
 * failure. `options` may be NULL. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_plan_create(tapconv_plan **plan, const tapconv_problem *problem,
                                                                    const tapconv_plan_options *options);

/* NULL is allowed. */
TAPCONV_API void tapconv_plan_destroy(tapconv_plan *plan);

/* What was planned. Strings live as long as the plan. */
typedef struct tapconv_plan_info {
    const char *kernel; /* for example "dense-window/avx512" */
    const char *reason; /* one sentence: why this kernel */
    const char *isa;    /* "avx512", or "" for a GPU */
    int64_t out_length; /* T_out */
    double flops;       /* 2 * N * C_out * T_out * C_in/groups * K: a multiplication and an addition each count */
    double bytes;       /* x, w, bias, gamma and beta read once, y written once */
    size_t workspace_bytes;
    size_t packed_weights_bytes;
    int32_t threads; /* that execute will use; 0 for a GPU */
    /* How the GPU is used; "" and 0 for the CPU. */
    const char *device;                /* the card's name */
    const char *tile;                  /* what a block computes: "256 channels x 128 samples" */
    int64_t blocks;                    /* of the convolution's launch */
    int32_t block_threads;             /* threads of a block */
    int32_t registers;                 /* of a thread; 0: not known, since the card is not there */
    int32_t shared_bytes;              /* shared memory of a block */
    int32_t blocks_per_multiprocessor; /* that run at once; 0: not known, since the card is not there */
    double waves;                      /* blocks over those that the whole card runs at once; 0: not known */
} tapconv_plan_info;

TAPCONV_API void tapconv_plan_get_info(const tapconv_plan *plan, tapconv_plan_info *info);

/* The kernel families of the CPU engine, by index from 0; NULL beyond the last. A family that cannot take a problem is
 * refused by tapconv_plan_create; "dense-panel" takes every one. */
TAPCONV_API const char *tapconv_kernel_name(int32_t index);

/* The same for the engine of `where` (device and engine_path are read; NULL: the CPU). "general" takes every problem on a
 * GPU. NULL as well if the engine cannot be loaded. */
TAPCONV_API const char *tapconv_device_kernel_name(const tapconv_plan_options *where, int32_t index);

/* The names of the cards that tapconv_plan_options.card may be, by index from 0; NULL beyond the last, or if the
 * engine of `where` cannot be loaded. */
TAPCONV_API const char *tapconv_card_name(const tapconv_plan_options *where, int32_t index);

/* ------------------------------------------------------------------------------------------------------------- weights */

/* Bytes of packed weights; depends on the layer (channels, kernel size, groups, math) but not on N, T or threads: one
 * packed buffer serves every plan of a layer, whatever its batch, length, instruction set or kernel. */
TAPCONV_API size_t tapconv_packed_weights_bytes(const tapconv_plan *plan);

/* Packs w (C_out, C_in/groups, K), of the problem's type, into `packed` (aligned to 8 bytes, to 256 on a GPU;
 * `packed_bytes` long at least). Pack again whenever the weights change. On a GPU both are in its memory, and the work is
 * enqueued on its default stream. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_pack_weights(const tapconv_plan *plan, const void *w,
                                                                     void *packed, size_t packed_bytes);

/* The same, enqueued on `stream` (a cudaStream_t; see tapconv_arrays.stream). A CPU plan ignores `stream`. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_pack_weights_on(const tapconv_plan *plan, const void *w,
                                                                        void *packed, size_t packed_bytes,
                                                                        void *stream);

/* ------------------------------------------------------------------------------------------------------------ executing */

/* Bytes of scratch memory that an execute needs, of any alignment. May be 0. */
TAPCONV_API size_t tapconv_workspace_bytes(const tapconv_plan *plan);

/* The arrays of one execute; what the problem does not have must be NULL. x may be NULL if it has no elements. */
typedef struct tapconv_arrays {
    const void *x;              /* of the problem's type and layout */
    const void *packed_weights; /* from tapconv_pack_weights of a plan of the same layer */
    const void *bias;           /* (C_out), of param_type */
    const void *gamma;          /* (C_out), of param_type */
    const void *beta;           /* (C_out), of param_type */
    void *y;                    /* every element is written */
    void *workspace;
    size_t workspace_bytes;
    void *
        stream; /* CUDA: the cudaStream_t, of the plan's device, that the work is enqueued on; NULL: the device's default
                     stream (0, the legacy one, as in CUDA's own calls). A CPU plan ignores it */
    void *reserved[3]; /* NULL */
} tapconv_arrays;

/* Computes y. Allocates nothing and takes no lock; y's contents are undefined after a failure only if the failure is not
 * TAPCONV_INVALID_ARGUMENT.
 * On the CPU it returns when y is complete. On a GPU it enqueues and returns: it does not synchronise, and may be captured
 * in a CUDA graph. Packed weights cannot be looked at from the host then: on a GPU it is the caller who must see to it that
 * they are of the plan's layer, and were packed for a card of the same model. What goes wrong while the GPU computes is
 * reported by whichever call synchronises next. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_execute(const tapconv_plan *plan, const tapconv_arrays *arrays);

/* ----------------------------------------------------------------------------------------------------------- verifying */

/* The operator in float64 as plain loops that read like the formula: the oracle that every kernel is checked against.
 * Arrays of the problem's types as for execute, but w is not packed; y64 is float64 in the problem's layout. Operands
 * are taken as stored: the math mode does not matter here. Slow, single-threaded; allocates nothing. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_reference(const tapconv_problem *problem, const void *x,
                                                                  const void *w, const void *bias, const void *gamma,
                                                                  const void *beta, double *y64);

/* The same for one item and one GroupNorm group (0 <= group < norm_groups; without GroupNorm one channel, 0 <= group <
 * C_out), so that large problems can be sampled. `rows` is (C_out/norm_groups, T_out), or (T_out) without GroupNorm,
 * channel by channel in both layouts. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_reference_group(const tapconv_problem *problem, const void *x,
                                                                        const void *w, const void *bias,
                                                                        const void *gamma, const void *beta,
                                                                        int64_t item, int64_t group, double *rows);

/* Copies `count` elements, converting to nearest-even of the destination type. The arrays may not overlap. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_convert(void *destination, tapconv_type destination_type,
                                                                const void *source, tapconv_type source_type,
                                                                int64_t count);

/* Rounds float32 values to the nearest TF32 in place, as TAPCONV_MATH_TF32 does. */
TAPCONV_API void tapconv_round_tf32(float *values, int64_t count);

/* What the machine can do at most, measured now (about 0.3 s). */
typedef struct tapconv_ceilings {
    double gflops;        /* the fastest way to multiply and add in the math mode, two operations each: on the CPU fused
                            multiply-adds from registers, all threads together; on a GPU its tensor cores, in f32 a third
                            of their f16 rate, since a float32 product takes three */
    double gbytes_per_s;  /* copying a large array, bytes read plus bytes written, the faster of plain and streaming */
    double fma_gflops;    /* fused multiply-adds from registers alone; on the CPU the same as gflops */
    double least_seconds; /* that any problem takes: a launch, on a GPU; 0 on the CPU */
    int32_t measured;     /* 1; 0: not measured but known of the card that the options describe */
} tapconv_ceilings;

/* Measures for the options' device, threads and instruction set and the arithmetic of `math`. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_measure_ceilings(const tapconv_plan_options *options,
                                                                         tapconv_math math, tapconv_ceilings *ceilings);

/* ------------------------------------------------------------------------------------------------------------- devices */

/* For programs that use a GPU through this library alone, as the tapconv command does. A program that has a CUDA runtime of
 * its own needs none of these. Of `where`, device (which must be TAPCONV_CUDA), device_index and engine_path are read. The
 * copies return when they are complete, and wait for the work of the default stream before. */

typedef struct tapconv_device_info {
    char name[64];        /* "NVIDIA H200" */
    int32_t major, minor; /* compute capability */
    int32_t multiprocessors;
    int32_t driver_version, runtime_version; /* 12040 for CUDA 12.4: the newest that the driver knows; the engine's */
    int64_t memory_bytes, free_bytes;
    int64_t l2_bytes;
} tapconv_device_info;

/* How many CUDA devices there are; TAPCONV_NO_DEVICE, with the reason, if there is no engine, driver or device. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_device_count(const tapconv_plan_options *where, int32_t *count);

TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_device_describe(const tapconv_plan_options *where,
                                                                        tapconv_device_info *info);

/* Memory of the device, aligned to 256 bytes; to be given back with tapconv_device_free. Never NULL, also for 0 bytes. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_device_allocate(const tapconv_plan_options *where,
                                                                        void **memory, size_t bytes);

/* NULL is allowed. Waits for the device. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_device_free(const tapconv_plan_options *where, void *memory);

TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_device_upload(const tapconv_plan_options *where, void *memory,
                                                                      const void *host, size_t bytes);
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_device_download(const tapconv_plan_options *where, void *host,
                                                                        const void *memory, size_t bytes);

/* Sets each byte. 0xff makes every floating-point type NaN. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_device_fill(const tapconv_plan_options *where, void *memory,
                                                                    uint8_t byte, size_t bytes);

/* Waits for everything that was enqueued on the device, and reports what went wrong in it. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_device_synchronize(const tapconv_plan_options *where);

#define TAPCONV_TIME_GRAPH 1u /* executes are captured in a CUDA graph, and the graph is launched */
#define TAPCONV_TIME_COLD 2u  /* the L2 cache is overwritten before each sample */

/* Times executes by the device's clock (events), on a stream of its own, after an untimed warm-up: seconds[i] is the time
 * of an execute in the i-th of `samples` samples, each the average over `executes` of them in a row. Successive executes
 * take `arrays[0]` to `arrays[sets - 1]` in turns, so that inputs need not be in a cache from the last one; their streams
 * are not used. Allocates, and returns when it is done. While it captures a graph no other thread may wait for the device
 * (tapconv_device_synchronize): CUDA then gives up the capture, and both fail. For plans of CUDA devices. */
TAPCONV_API TAPCONV_CHECK_RESULT tapconv_status tapconv_device_time(const tapconv_plan *plan,
                                                                    const tapconv_arrays *arrays, int32_t sets,
                                                                    uint32_t flags, int32_t executes, double *seconds,
                                                                    int32_t samples);

#ifdef __cplusplus
}
#endif
#endif
