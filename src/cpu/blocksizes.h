/* Sizes that trade one cache against another. They decide speed and never bits. Chosen on a Zen 5 core (48 KB L1, 1 MB
 * L2, 16 MB of L3 a core) over bench/layers.suite; caches half as large lose a few per cent. */
#ifndef TAPCONV_CPU_BLOCKSIZES_H
#define TAPCONV_CPU_BLOCKSIZES_H

/* Samples of a tile in time: enough to use each weight many times, few enough that the staged input stays in L2. */
#define TAPCONV_TILE_COLUMNS 384
/* A tile may shrink to this before its channels are staged in chunks. */
#define TAPCONV_LEAST_COLUMNS 96
/* Staged input of a tile. */
#define TAPCONV_STAGE_BYTES (512 * 1024)
/* Where all output channels pass over one piece of staged input: that piece, a chunk deep, and a block's weights for the
 * chunk. Both should stay in an L1 of 32 KB. */
#define TAPCONV_PIECE_BYTES (20 * 1024)
/* There: weights of a chunk that pass over all pieces, and their rows of acc, before the next output channels do. Both should
 * stay in an L2 of 512 KB beside the staged input. */
#define TAPCONV_PASS_BYTES (256 * 1024)
/* There: output channels of a kernel call, between two of which input is read ahead. */
#define TAPCONV_CALL_CHANNELS 64
/* Packed weights up to this size stay in L2 beside the staged input. */
#define TAPCONV_WEIGHTS_IN_L2 (512 * 1024)
/* Convolution results that wait for GroupNorm, a thread. */
#define TAPCONV_WAVE_BYTES (1024 * 1024)
/* Sums shorter than this cost less than going through L3 for GroupNorm: such layers are finished a few groups at a time,
 * though that stages their input several times. */
#define TAPCONV_CHEAP_TERMS 128
/* Their results that wait, a thread: the larger, the fewer times input is staged, but beyond L2. */
#define TAPCONV_CHEAP_WAVE_BYTES (4 * 1024 * 1024)
/* Outputs larger than this are written past the caches, which saves fetching them first; sums longer than that are not
 * limited by memory. */
#define TAPCONV_STREAM_BYTES (24 * 1024 * 1024)
#define TAPCONV_STREAM_TERMS 256
/* Rows that begin within a cache line must be this long: their ends are slow to write so. */
#define TAPCONV_STREAM_ROW 8192
/* Samples of a depthwise row at a time: input and output in L1. */
#define TAPCONV_DEPTHWISE_COLUMNS 1536 /* a multiple of every tile's width */
/* Several output channels of one input channel go row by row up to so many taps, and where the input row stays in L2. */
#define TAPCONV_ROW_TAPS 9
#define TAPCONV_ROW_BYTES (256 * 1024)
/* A thread is worth its start for this many operations. */
#define TAPCONV_THREAD_FLOPS 4e6
/* A window's table has an entry for each tap; with more taps than this a panel, which works in pieces of a channel, takes
 * over: a plan should be made quickly, whatever it describes. */
#define TAPCONV_MOST_TABLE_TAPS (4 * 1024 * 1024)
/* Lines (input under one tile of one channel) longer than this are not staged whole. */
#define TAPCONV_LONGEST_LINE (64 * 1024)

#endif
