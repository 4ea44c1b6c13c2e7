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
#define SUMS_64(p)                                                                                                     \
    SUMS_8(p, 0), SUMS_8(p, 8), SUMS_8(p, 16), SUMS_8(p, 24), SUMS_8(p, 32), SUMS_8(p, 40), SUMS_8(p, 48), SUMS_8(p, 56)
#define WGMMA_N128(instruction)                                                                                        \
    "{\n.reg .pred keep;\nsetp.ne.b32 keep, %66, 0;\n" instruction                                                     \
    " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
    "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57," \
    "%58,%59,%60,%61,%62,%63}, %64, %65, keep, 1, 1"

/* sums (64 x 128) = a (64 x 32 bytes) * b (128 x 32 bytes), + sums if `keep`. Thread t of the group of 128 holds, as
 * sums[4*j + 2*h + e], row (t/32)*16 + h*8 + t%32/4 and column j*8 + t%4*2 + e. */
template <int KIND>
static __device__ __forceinline__ void wgmma_n128(float (&sums)[64], uint64_t a, uint64_t b, int keep)
{
    if constexpr (KIND == WGMMA_F16)
        asm volatile(WGMMA_N128("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16") ", 0, 0;\n}"
                     : SUMS_64(sums)
                     : "l"(a), "l"(b), "r"(keep));
    else if constexpr (KIND == WGMMA_BF16)
        asm volatile(WGMMA_N128("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16") ", 0, 0;\n}"
                     : SUMS_64(sums)
                     : "l"(a), "l"(b), "r"(keep));
    else
        asm volatile(WGMMA_N128("wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32") ";\n}"
                     : SUMS_64(sums)
                     : "l"(a), "l"(b), "r"(keep));
}

/* After a wait: keeps the compiler from using sums before it. */
static __device__ __forceinline__ void wgmma_settle(float (&sums)[64])
{
    asm volatile("" : SUMS_64(sums)::"memory");
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
