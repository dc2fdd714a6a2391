/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inner loops of convolutions and dense layers on integers of 8 bits
 * (kernels/quant/quant.h), for the widest instructions that the machine has.
 *
 * The product takes rows of U8 values and panels of I8 weights: four terms side
 * by side make a quad, and a panel is [quads][outputs of a panel][4].  An I8
 * input is moved by 128 first, and the constant part that the zero point adds
 * to every sum, padding included, is taken off at the end (`offset`).
 *
 * Depthwise layers have quads too: four taps of one channel.  They are put side
 * by side from four rows of the input, a block of channels at a time
 * (dot_mix), which leaves the channels of a block in the order
 *     vector i, lane e:  channel 16 (e / 4) + 4 i + e % 4
 * The saturating packs that end the layer give back the natural order.
 */
#ifndef KERNELS_CPU_CONV_DOT_H
#define KERNELS_CPU_CONV_DOT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kern.h"
#include "kernels/quant/act.h"

/* Most outputs of a panel, and channels of a depthwise block: vectors read so
 * many behind the last channel. */
#define DOT_MAX_PANEL 64
/* Rows and outputs of sums that dot_steps.sums() gives at a time. */
#define DOT_SUM_ROWS  32
#define DOT_SUM_PANEL 32
/* Quads of a step of dot_steps.sums(). */
#define DOT_SUM_QUADS 16

/* The end of a layer: what becomes of the sum of channel k. */
struct dot_finish {
    void *y;
    const void *residual;          /* or NULL */
    enum infer_dtype y_type, type; /* type: of the residual */
    const float *scale, *bias;     /* of each channel, and DOT_MAX_PANEL more */
    float act_low, act_high;       /* the activation */
    bool is_smooth;                /* the activation is smooth */
    struct quant_smooth smooth;
    float r_scale;
    int r_zero;
    bool residual_last;
    /* An integer y is  flip ^ min(max(round(v inverse) + shift, least), most)
     * in unsigned bytes: an I8 y is moved by 128 and back. */
    float inverse;
    int shift;
    uint8_t least, most, flip;
};

/* Most rows of a product, of all lines. */
#define DOT_MAX_ROWS 64

/* Rows of the product: `lines` lines, each of `rows` rows `step` bytes apart. A
 * row is `pieces` pieces of `quads` quads, piece i from piece_at[i] on. */
struct dot_rows {
    const uint8_t *x;
    int64_t line, step; /* bytes from a line, a row to the next */
    int64_t lines, rows, pieces, quads;
    const int64_t *piece_at;
    const int64_t *y_at, *r_at; /* of each row: its first channel's place */
    const int8_t *w;            /* one panel */
    const int32_t *offset;      /* of the panel's outputs */
    int64_t k, n;               /* first channel; channels of the panel */
    /* [rows][DOT_SUM_PANEL] sums of the quads before `first`, or NULL: 0.  Of
     * rows of one piece. */
    const int32_t *sums;
    int64_t first;
};

/* Input pixels along the width of four rows, to quads of taps. */
struct dot_mix {
    const uint8_t *row[4]; /* pixel 0 of a row */
    int64_t step[4];       /* bytes between its pixels */
    int64_t low, high;     /* pixels inside the input: the others are padding */
    int64_t pixels, n;     /* n: channels, at most those of a block */
    uint8_t zero, flip;    /* padding; what bytes of the input are xored by */
    uint8_t *to;           /* [pixels][channels of a block][4] */
};

/* Output pixels of a depthwise layer, of one block of channels. */
struct dot_depth {
    const uint8_t *x;          /* quads of the first pixel's first tap */
    int64_t pixel, tap, row;   /* bytes between pixels, taps, rows of quads */
    int64_t rows, taps;        /* taps: of a row */
    const int8_t *w;           /* [rows][taps][channels of a block][4] */
    const int32_t *offset;     /* of the block; in the mixed order, as are */
    const float *scale, *bias; /* these */
    int64_t pixels, k, n;      /* first channel; channels of the block */
    int64_t y_at, r_at, y_step, r_step;
};

struct dot_steps {
    int panel; /* outputs of a panel */
    int block; /* channels of a depthwise block */
    void (*rows)(const struct dot_rows *r, const struct dot_finish *f);
    void (*mix)(const struct dot_mix *m);
    void (*depth)(const struct dot_depth *d, const struct dot_finish *f);
    /* Sums of `rows` rows, at most DOT_SUM_ROWS, and a panel of DOT_SUM_PANEL
     * outputs, over `steps` steps of DOT_SUM_QUADS quads.  After begin() of as
     * many rows on this thread, before end().  NULL: the processor has no unit
     * for that. */
    void (*begin)(int64_t rows);
    void (*sums)(const struct dot_rows *r, int64_t rows, int64_t steps,
                 int32_t *to);
    void (*end)(void);
};

/* 32-bit lanes of their vectors. */
static inline int dot_lanes(const struct dot_steps *s)
{
    return s->block / 4;
}

/* Those of this machine. */
const struct dot_steps *dot_steps(void);

/* Channel of a block in lane e of vector i, of vectors of `lanes` lanes. */
static inline int64_t dot_mixed_channel(int64_t i, int64_t e)
{
    return e / 4 * 16 + i * 4 + e % 4;
}

extern const struct dot_steps dot_steps_avx512, dot_steps_avx2;

/* Whether tiles (AMX) are built: Linux must be asked for them. */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#define DOT_AMX 1
#endif
extern const struct dot_steps dot_steps_amx;
/* True where the processor has AMX on bytes and the system lets it be used. */
bool dot_has_amx(void);
void dot_amx_begin(int64_t rows);
void dot_amx_sums(const struct dot_rows *r, int64_t rows, int64_t steps,
                  int32_t *to);
void dot_amx_end(void);

#endif
