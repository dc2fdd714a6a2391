/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of products of bytes by AMX: a tile register holds 16 rows of 64 bytes,
 * and one instruction multiplies 16 rows x 64 terms by 64 terms x 16 outputs.
 * Two tiles of rows, two of weights and their four of sums make 32 rows x 32
 * outputs a step.  A panel of 32 outputs lies as tiles already: a quad of terms
 * of 16 outputs is a row of 64 bytes, every 128 bytes.
 */
#include "kernels/cpu/conv/dot.h"
#include "kernels/test_hooks.h"

#ifdef DOT_AMX
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TARGET __attribute__((target("amx-tile,amx-int8")))

/* From Linux' asm/prctl.h and the processor's manual. */
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA  18
#define CPUID_AMX_TILE      (1u << 24)
#define CPUID_AMX_INT8      (1u << 25)

/* Bytes of a tile's row, and from one quad of a panel to the next. */
#define TILE_ROW  64
#define PANEL_ROW (DOT_SUM_PANEL * 4)
#define TILE_ROWS 16

bool dot_has_amx(void)
{
    const unsigned both = CPUID_AMX_TILE | CPUID_AMX_INT8;
    unsigned a, b, c, d;

    return KERN_TEST_HOOK(isa) == TEST_ISA_ALL &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & both) == both &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) ==
               0;
}

/* The operand of LDTILECFG. */
struct tiles {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; /* of a row of each tile */
    uint8_t rows[16];
};

/* Tiles 0 to 3 hold sums, 4 and 5 rows of x, 6 and 7 weights. */
TARGET void dot_amx_begin(int64_t rows)
{
    const uint8_t low = (uint8_t)(rows < TILE_ROWS ? rows : TILE_ROWS);
    const uint8_t high = (uint8_t)(rows > TILE_ROWS ? rows - TILE_ROWS : 1);
    struct tiles t = {.palette = 1,
                      .rows = {low, low, high, high, low, high, 16, 16}};

    for (int i = 0; i < 8; i++)
        t.bytes[i] = TILE_ROW;
    /* The intrinsic function of some compilers reads 8 bytes of it, as far as
     * they can see, and leaves the others unset. */
    __asm__ volatile("ldtilecfg %0" : : "m"(t));
}

TARGET void dot_amx_end(void)
{
    _tile_release();
}

/* Weights come from afar, in an order that the processor's own prefetching
 * follows too late: those of AHEAD steps later are asked for. */
#define AHEAD 1

TARGET static inline void fetch(const int8_t *w)
{
    for (int i = 0; i < DOT_SUM_QUADS * PANEL_ROW; i += 64)
        __builtin_prefetch(w + AHEAD * DOT_SUM_QUADS * PANEL_ROW + i, 0, 3);
}

/* One tile of rows. */
TARGET static void sums_low(const struct dot_rows *r, const uint8_t *x,
                            int64_t steps, int32_t *to)
{
    const int8_t *w = r->w;

    _tile_zero(0);
    _tile_zero(1);
    for (int64_t i = 0; i < steps; i++) {
        fetch(w);
        _tile_loadd(4, x, r->step);
        _tile_loadd(6, w, PANEL_ROW);
        _tile_loadd(7, w + TILE_ROW, PANEL_ROW);
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        x += TILE_ROW;
        w += DOT_SUM_QUADS * PANEL_ROW;
    }
    _tile_stored(0, to, PANEL_ROW);
    _tile_stored(1, to + TILE_ROWS, PANEL_ROW);
}

TARGET void dot_amx_sums(const struct dot_rows *r, int64_t rows, int64_t steps,
                         int32_t *to)
{
    const uint8_t *x = r->x, *y = x + TILE_ROWS * r->step;
    const int8_t *w = r->w;
    int32_t *low = to + TILE_ROWS * DOT_SUM_PANEL;

    /* To the compiler loads of tiles do not read memory: nothing written before
     * may be left for later. */
    __asm__ volatile("" : : : "memory");
    if (rows <= TILE_ROWS) {
        sums_low(r, x, steps, to);
        return;
    }
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = 0; i < steps; i++) {
        fetch(w);
        _tile_loadd(4, x, r->step);
        _tile_loadd(6, w, PANEL_ROW);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(7, w + TILE_ROW, PANEL_ROW);
        _tile_dpbusd(1, 4, 7);
        _tile_loadd(5, y, r->step);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
        x += TILE_ROW;
        y += TILE_ROW;
        w += DOT_SUM_QUADS * PANEL_ROW;
    }
    _tile_stored(0, to, PANEL_ROW);
    _tile_stored(1, to + TILE_ROWS, PANEL_ROW);
    _tile_stored(2, low, PANEL_ROW);
    _tile_stored(3, low + TILE_ROWS, PANEL_ROW);
}
#else
typedef int dot_amx_is_not_built;
#endif
