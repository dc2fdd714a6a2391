/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a product of a table is computed on the device, bit for bit as
 * product_table_join() has it.
 *
 * Both operands of a multiply-add are brought into a form of their own when a
 * tile is loaded:
 *   x'      x cut to m mantissa bits, times 2^scale so that the largest
 *           exponent of all x is 124; zero and subnormals: zero of x's sign
 *   first   what the engine needs of the mantissa of w: the row of the table,
 *           or the fraction itself
 *   power   the sign and the exponent of w as a number, times 2^-(e + 26),
 *           where e is the largest exponent of all w; zero for zero
 * value(x', first) is x' times the mantissa of w, and the product is value
 * times power, which is exact: fma_flushed() adds it with one rounding.
 *
 * Products stay between 2^-102 and 2^100 for operands that operand_is_plain()
 * accepts, so that neither they nor their sums are ever subnormal: a sum of
 * products is a multiple of 2^-125.  For x' = 0 the value is below 2^-125 and
 * the product below 2^-151, which leaves any such sum as it is; a sum of zero
 * stays zero, since subnormal results are flushed.  Other operands (infinity,
 * NaN, products that could underflow or overflow) go through
 * product_table_join() itself.
 */
#ifndef KERNELS_CUDA_TABLE_ENGINE_CUH
#define KERNELS_CUDA_TABLE_ENGINE_CUH

#include <stdint.h>

#include "kernels/base/product_table.h"
#include "kernels/cuda/launch.cuh"

/* Biased exponent fields. */
#define TABLE_X_TOP 251 /* of the largest x' */
#define TABLE_W_TOP 101 /* of the largest power */
#define TABLE_LEAST 25  /* of the least product: 2^-102 */
/* From the largest to the least w, at most: times 2^-8 no power is subnormal.
 */
#define TABLE_SPAN 92

enum table_engine {
    TABLE_PRODUCT, /* the exact product, cut to some bits or not */
    TABLE_SUM,     /* Mitchell: the sum of the bit patterns */
    TABLE_SUM_ADD, /* the same plus a constant below 4 (MBM) */
    TABLE_8,       /* table of 8, 16, 32 bits an entry in shared memory */
    TABLE_16,
    TABLE_32,
    TABLE_GLOBAL /* the table where it is */
};

/* What survey.cuh finds out about the operands and the table; all zero at
 * first. */
struct table_facts {
    uint32_t x_top;         /* largest biased exponent of x; 255 not counted */
    uint32_t w_top;         /* the same of w */
    uint32_t w_below_255;   /* 255 - least exponent of w that is not 0 */
    uint32_t entry_bits;    /* all entries joined by or */
    uint32_t cut_least;     /* the exact product cut to so many bits, or more */
    uint32_t cut_below_24;  /* 24 - bits that it may be cut to at most */
    uint32_t wrong_sum;     /* not 0: the table is no TABLE_SUM */
    uint32_t wrong_sum_add; /* nor TABLE_SUM_ADD */
    uint32_t rough;         /* not 0: an operand is not plain (packed.cuh) */
};

/* What the threads of a launch need of the facts. */
struct table_rules {
    int m;
    enum table_engine engine;
    uint32_t low;               /* fractions: mask of what is cut off */
    uint32_t keep;              /* TABLE_PRODUCT: mask of a value */
    float add;                  /* TABLE_SUM_ADD: the constant */
    int x_scale;                /* added to the exponent of x */
    int w_scale;                /* added to the exponent of w */
    uint32_t x_least, x_most;   /* exponents of plain x */
    uint32_t w_least;           /* of plain w */
    float scale[2], unscale[2]; /* a product times both; a sum times both */
};

static __device__ __forceinline__ float table_float(uint32_t bits)
{
    return __uint_as_float(bits);
}

/* a * b + c, subnormal operands and results being zero. */
static __device__ __forceinline__ float fma_flushed(float a, float b, float c)
{
    asm("fma.rn.ftz.f32 %0, %1, %2, %0;" : "+f"(c) : "f"(a), "f"(b));
    return c;
}

/* 2^e for e from -126 to 127. */
static __device__ __forceinline__ float table_power(int e)
{
    return table_float((uint32_t)(e + 127) << 23);
}

/* ---- rules from facts ---------------------------------------------- */

/* Mitchell's; exact products are none, though of 1 bit both are the same. */
static __device__ __forceinline__ bool table_is_sum(const struct table_facts &f)
{
    return f.cut_least + f.cut_below_24 > 24 && !f.wrong_sum;
}

static __device__ enum table_engine table_choose(const struct table_facts &f,
                                                 int m, size_t room)
{
    const size_t entries = (size_t)1 << 2 * m;

    if (f.cut_least + f.cut_below_24 <= 24)
        return TABLE_PRODUCT;
    if (table_is_sum(f))
        return TABLE_SUM;
    if (!f.wrong_sum_add)
        return TABLE_SUM_ADD;
    if ((f.entry_bits & 0xffff) == 0 && entries <= room)
        return TABLE_8;
    if ((f.entry_bits & 0xff) == 0 && 2 * entries <= room)
        return TABLE_16;
    return 4 * entries <= room ? TABLE_32 : TABLE_GLOBAL;
}

/* The constant of TABLE_SUM_ADD: what the product of 1 and 1 has above 1. */
static __device__ __forceinline__ float table_constant(uint32_t first_entry)
{
    return table_float((127u << 23) + first_entry) - 1;
}

/* room: bytes of shared memory for a table. */
static __device__ struct table_rules table_rules_of(const struct table_facts &f,
                                                    int m, size_t room,
                                                    uint32_t first_entry)
{
    const int w_top = (int)f.w_top;
    int w_bottom = 255 - (int)f.w_below_255, least;
    struct table_rules r = {};

    r.m = m;
    r.engine = table_choose(f, m, room);
    r.low = PRODUCT_TABLE_FRACTION >> m;
    r.keep = ~(PRODUCT_TABLE_FRACTION >> max(0, 24 - (int)f.cut_below_24));
    r.add = table_constant(first_entry);
    r.x_scale = TABLE_X_TOP - (int)f.x_top;
    r.w_scale = TABLE_W_TOP - w_top;
    if (w_bottom > w_top) /* w is zero everywhere */
        w_bottom = w_top;
    if (w_bottom < w_top - TABLE_SPAN)
        w_bottom = w_top - TABLE_SPAN;
    if (w_bottom < 1)
        w_bottom = 1;
    r.w_least = (uint32_t)w_bottom;
    /* The product does not underflow, is not below 2^-102 when scaled, and x'
     * is no subnormal. */
    least = 128 - w_bottom;
    least = max(least, TABLE_LEAST + 127 - r.x_scale - w_bottom - r.w_scale);
    r.x_least = (uint32_t)max(least, max(1, 1 - r.x_scale));
    /* It does not overflow, carry included. */
    r.x_most = (uint32_t)max(0, min(254, 254 + 127 - 1 - w_top));
    /* Where products may be above 2^98 none are scaled down, which would lose
     * small ones: all but zeros are multiplied one by one. */
    if (r.x_scale + r.w_scale < 0) {
        r.x_scale = r.w_scale = 0;
        r.x_least = r.w_least = 255;
        r.x_most = 0;
    }
    /* Where a product can be other than zero the shift is 225 at most; beyond
     * that any factor does. */
    const int shift = min(r.x_scale + r.w_scale, 250);
    r.scale[0] = table_power(shift / 2);
    r.scale[1] = table_power(shift - shift / 2);
    r.unscale[0] = table_power(-(shift / 2));
    r.unscale[1] = table_power(-(shift - shift / 2));
    return r;
}

/* ---- operands ------------------------------------------------------ */

static __device__ __forceinline__ bool
table_x_is_plain(const struct table_rules &r, uint32_t x)
{
    const uint32_t e = (x & PRODUCT_TABLE_EXPONENT) >> 23;

    return e == 0 || (e >= r.x_least && e <= r.x_most);
}

static __device__ __forceinline__ bool
table_w_is_plain(const struct table_rules &r, uint32_t w)
{
    const uint32_t e = (w & PRODUCT_TABLE_EXPONENT) >> 23;

    return e == 0 || (e >= r.w_least && e < 255);
}

/* x'. */
static __device__ __forceinline__ uint32_t
table_take_x(const struct table_rules &r, uint32_t x)
{
    if ((x & PRODUCT_TABLE_EXPONENT) == 0)
        return x & PRODUCT_TABLE_SIGN;
    return (x & ~r.low) + ((uint32_t)r.x_scale << 23);
}

/* first and power.  step: of a row in the table, in what value() counts in. */
static __device__ __forceinline__ uint2
table_take_w(const struct table_rules &r, uint32_t w, uint32_t step)
{
    const uint32_t fraction = w & PRODUCT_TABLE_FRACTION & ~r.low;
    uint2 v;

    v.x = r.engine == TABLE_PRODUCT   ? 127u << 23 | fraction
          : r.engine <= TABLE_SUM_ADD ? fraction
                                      : product_table_index(r.m, w) * step;
    v.y = w & PRODUCT_TABLE_SIGN;
    if (w & PRODUCT_TABLE_EXPONENT)
        v.y = (w & ~PRODUCT_TABLE_FRACTION) + ((uint32_t)r.w_scale << 23);
    return v;
}

/* ---- tables in shared memory --------------------------------------- */

/* Step from row to row, rows being those of second operands. */
static __device__ __forceinline__ uint32_t
table_row_step(const struct table_rules &r, int64_t column)
{
    if (r.engine == TABLE_GLOBAL)
        return (uint32_t)column;
    return r.engine < TABLE_8 ? 0 : (1u << r.m) << (r.engine - TABLE_8);
}

/* The table with rows of second operands, entries cut to their upper bytes. */
template <typename Entry>
static __device__ void table_load_as(int m, const uint32_t *table, int64_t row,
                                     int64_t column, unsigned char *to)
{
    const uint32_t side = 1u << m;

    for (uint32_t i = threadIdx.x; i >> 2 * m == 0; i += blockDim.x)
        ((Entry *)to)[i] =
            (Entry)(table[(i & (side - 1)) * row + (i >> m) * column] >>
                    (24 - 8 * min(3, (int)sizeof(Entry))));
}

static __device__ void table_load(const struct table_rules &r,
                                  const uint32_t *table, int64_t row,
                                  int64_t column, unsigned char *to)
{
    if (r.engine == TABLE_8)
        table_load_as<uint8_t>(r.m, table, row, column, to);
    else if (r.engine == TABLE_16)
        table_load_as<uint16_t>(r.m, table, row, column, to);
    else if (r.engine == TABLE_32)
        table_load_as<uint32_t>(r.m, table, row, column, to);
}

/* ---- engines ------------------------------------------------------- */

/* Each: what it keeps of x' in registers, and the value. */

struct engine_product {
    struct operand {
        float x;
    };
    uint32_t keep;

    __device__ __forceinline__ struct operand take(uint32_t x) const
    {
        return {table_float(x)};
    }
    __device__ __forceinline__ float value(struct operand x, uint32_t w) const
    {
        return table_float(__float_as_uint(x.x * table_float(w)) & keep);
    }
};

struct engine_sum {
    struct operand {
        uint32_t x;
    };

    __device__ __forceinline__ struct operand take(uint32_t x) const
    {
        return {x};
    }
    __device__ __forceinline__ float value(struct operand x, uint32_t w) const
    {
        return table_float(x.x + w);
    }
};

/* The sum, to which the constant is added unless that gives 4 or more. */
struct engine_sum_add {
    struct operand {
        uint32_t x;
        float add,
            limit; /* limit: 4 less the constant where x is from 1 to 2 */
    };
    float add;

    __device__ __forceinline__ struct operand take(uint32_t x) const
    {
        const float power = table_float(x & ~PRODUCT_TABLE_FRACTION);

        return {x, power * add, fabsf(power) * (4 - add)};
    }
    __device__ __forceinline__ float value(struct operand x, uint32_t w) const
    {
        float sum = table_float(x.x + w);

        /* Written so that the compiler does not choose between two sums. */
        asm("{\n"
            ".reg .pred p;\n"
            ".reg .f32 size;\n"
            "abs.f32 size, %0;\n"
            "setp.lt.f32 p, size, %1;\n"
            "@p add.rn.f32 %0, %0, %2;\n"
            "}"
            : "+f"(sum)
            : "f"(x.limit), "f"(x.add));
        return sum;
    }
};

/* A table in shared memory.  A warp has one w, so that its lanes read one row:
 * without bank conflicts if the row is of 128 bytes or less. */
template <typename Entry> struct engine_shared {
    struct operand {
        uint32_t at, power; /* at: in the row, as an address of shared memory */
    };
    uint32_t table;
    int shift;     /* of a fraction to an index */
    uint32_t mask; /* of indices */

    __device__ __forceinline__ struct operand take(uint32_t x) const
    {
        return {table + (x >> shift & mask) * (uint32_t)sizeof(Entry),
                x & ~PRODUCT_TABLE_FRACTION};
    }
    __device__ __forceinline__ float value(struct operand x, uint32_t w) const
    {
        const uint32_t at = x.at + w;
        uint32_t entry;

        if constexpr (sizeof(Entry) == 1)
            asm("ld.shared.u8 %0, [%1];" : "=r"(entry) : "r"(at));
        else if constexpr (sizeof(Entry) == 2)
            asm("ld.shared.u16 %0, [%1];" : "=r"(entry) : "r"(at));
        else
            asm("ld.shared.u32 %0, [%1];" : "=r"(entry) : "r"(at));
        return table_float(x.power +
                           (entry << (24 - 8 * min(3, (int)sizeof(Entry)))));
    }
};

/* The table where it is, by elements. */
struct engine_global {
    struct operand {
        uint32_t index, power;
    };
    const uint32_t *table;
    int shift;
    uint32_t mask, step;

    __device__ __forceinline__ struct operand take(uint32_t x) const
    {
        return {(x >> shift & mask) * step, x & ~PRODUCT_TABLE_FRACTION};
    }
    __device__ __forceinline__ float value(struct operand x, uint32_t w) const
    {
        return table_float(x.power + __ldg(table + (x.index + w)));
    }
};

#endif
