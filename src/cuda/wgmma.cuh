/* Hopper's asynchronous matrix instruction, bulk copies and barriers, one PTX instruction a function.
 *
 * Operands lie in shared memory with the sum dimension innermost, in rows of 128 bytes whose 16-byte pieces are swizzled:
 * piece p of row r is at r*128 + (p ^ (r & 7))*16, for rows counted from an address that is a multiple of 1024. A
 * descriptor may start at any row: the hardware takes the swizzle from the address bits, so a tap's shift is an address.
 * Descriptor fields: PTX ISA, "Asynchronous warpgroup level matrix shared memory layout". */
#ifndef TAPCONV_CUDA_WGMMA_CUH
#define TAPCONV_CUDA_WGMMA_CUH

#include <cuda_runtime.h>
#include <stdint.h>

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Eight rows are 1024 bytes apart (stride offset), swizzle mode 128 bytes. */
static __device__ __forceinline__ uint64_t operand(uint32_t address)
{
    return (uint64_t)((address & 0x3FFFF) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

static __device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int PENDING> static __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

enum { WGMMA_F16, WGMMA_BF16, WGMMA_TF32 };

#define SUMS_8(p, i)                                                                                                   \
    "+f"(p[i]), "+f"(p[i + 1]), "+f"(p[i + 2]), "+f"(p[i + 3]), "+f"(p[i + 4]), "+f"(p[i + 5]), "+f"(p[i + 6]),        \
        "+f"(p[i + 7])
#define SUMS_16(p, i) SUMS_8(p, i), SUMS_8(p, i + 8)
#define SUMS_32(p, i) SUMS_16(p, i), SUMS_16(p, i + 16)
#define SUMS_64(p, i) SUMS_32(p, i), SUMS_32(p, i + 32)
#define SUMS_128(p, i) SUMS_64(p, i), SUMS_64(p, i + 64)
/* Their operand numbers. */
#define NUMBERS_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define NUMBERS_16                                                                                                     \
    NUMBERS_8 ","                                                                                                      \
              "%8,%9,%10,%11,%12,%13,%14,%15"
#define NUMBERS_32                                                                                                     \
    NUMBERS_16 ","                                                                                                     \
               "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NUMBERS_64                                                                                                     \
    NUMBERS_32 ","                                                                                                     \
               "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"  \
               "%57,%58,%59,%60,%61,%62,%63"
#define NUMBERS_128                                                                                                    \
    NUMBERS_64 ","                                                                                                     \
               "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,"  \
               "%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,"   \
               "%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
/* `a0`.. are the operand numbers that come after the sums: four registers of a, the descriptor of b, keep. */
#define WGMMA(instruction, numbers, a0, a1, a2, a3, b, k, flags)                                                       \
    "{\n.reg .pred keep;\nsetp.ne.b32 keep, " k ", 0;\nwgmma.mma_async.sync.aligned." instruction " {" numbers         \
    "}, {" a0 "," a1 "," a2 "," a3 "}, " b ", keep, 1, 1" flags ";\n}"
#define WGMMA_KINDS(n, sums, ...)                                                                                      \
    if constexpr (KIND == WGMMA_F16)                                                                                   \
        asm volatile(WGMMA("m64n" #n "k16.f32.f16.f16", __VA_ARGS__, ", 0") : SUMS_##sums(d, 0) : FACTORS);            \
    else if constexpr (KIND == WGMMA_BF16)                                                                             \
        asm volatile(WGMMA("m64n" #n "k16.f32.bf16.bf16", __VA_ARGS__, ", 0") : SUMS_##sums(d, 0) : FACTORS);          \
    else                                                                                                               \
        asm volatile(WGMMA("m64n" #n "k8.f32.tf32.tf32", __VA_ARGS__, "") : SUMS_##sums(d, 0) : FACTORS)
#define FACTORS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep)

/* d (64 x N) = a (64 x 32 bytes, in registers) * b (N x 32 bytes, in shared memory), + d if `keep`. Of thread t of the group of
 * 128, with g = t % 32 / 4 and q = t % 4: d[4*j + 2*h + e] is row (t/32)*16 + h*8 + g and column j*8 + q*2 + e. a[2*i + h] is row
 * (t/32)*16 + h*8 + g and, of 16-bit operands, places i*8 + q*2 and the one after, of TF32 place i*4 + q.
 * Asynchronous: registers of d and a must stay as they are until a wait. */
template <int KIND, int N>
static __device__ __forceinline__ void wgmma(float (&d)[N / 2], const uint32_t *a, uint64_t b, int keep)
{
    if constexpr (N == 16) {
        WGMMA_KINDS(16, 8, NUMBERS_8, "%8", "%9", "%10", "%11", "%12", "%13");
    } else if constexpr (N == 32) {
        WGMMA_KINDS(32, 16, NUMBERS_16, "%16", "%17", "%18", "%19", "%20", "%21");
    } else if constexpr (N == 64) {
        WGMMA_KINDS(64, 32, NUMBERS_32, "%32", "%33", "%34", "%35", "%36", "%37");
    } else if constexpr (N == 128) {
        WGMMA_KINDS(128, 64, NUMBERS_64, "%64", "%65", "%66", "%67", "%68", "%69");
    } else if constexpr (N == 256) {
        WGMMA_KINDS(256, 128, NUMBERS_128, "%128", "%129", "%130", "%131", "%132", "%133");
    }
}

/* After a wait: keeps the compiler from using or moving these before it. */
template <int N> static __device__ __forceinline__ void wgmma_settle(float (&d)[N])
{
    static_assert(N % 8 == 0, "whole groups of eight");
#pragma unroll
    for (int i = 0; i < N; i += 8) asm volatile("" : SUMS_8(d, i)::"memory");
}
template <int N> static __device__ __forceinline__ void wgmma_settle(uint32_t (&a)[N])
{
#pragma unroll
    for (int i = 0; i < N; i += 4)
        asm volatile("" : "+r"(a[i]), "+r"(a[i + 1]), "+r"(a[i + 2]), "+r"(a[i + 3])::"memory");
}

/* ------------------------------------------------------------------------------------------------------------ barriers */

static __device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
static __device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
static __device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/* Arrives when the thread's asynchronous copies of a few bytes are there. */
static __device__ __forceinline__ void barrier_arrive_after_copies(uint32_t barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
/* Returns when the phase of this parity is complete. */
static __device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\nWAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
/* A barrier of `threads` threads of the block. */
static __device__ __forceinline__ void group_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/* Ordinary accesses to shared memory before it are seen by matrix instructions and bulk copies after it. */
static __device__ __forceinline__ void fence_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* Global memory to shared memory; both and the size are multiples of 16 bytes. */
static __device__ __forceinline__ void bulk_copy(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

template <int REGISTERS> static __device__ __forceinline__ void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> static __device__ __forceinline__ void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

#endif
