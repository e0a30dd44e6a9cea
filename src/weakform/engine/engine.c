/* The compiled engine: passes over the intervals of a mesh for many fits side by side. `passes.py` defines what each
 * function computes, and does the same in NumPy if there is no compiler; docs/solvers.md derives it.
 *
 * Fits are in groups of W lanes, and lanes are the last axis of every array, so that the innermost loop of each
 * operation runs over the lanes and the compiler turns it into instructions that handle 2, 4 or 8 of them. The file is
 * compiled once for each instruction set (the macro SET names it), and includes `lanes.h` for 8 lanes and for one.
 *
 * Functions are tapes (`instruction_tape.py`), interpreted on tiles of TILE numbers. Nothing is kept between calls; the
 * only memory that a call allocates is freed before it returns. Each call returns 0, or 1 if there was no memory.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

typedef int64_t idx;

enum { TILE = 64 }; /* numbers in a register of the tape: 512 bytes, so that some fifty registers stay in the cache */

/* ---- Elementary functions of a tile. Branch-free loops, so that they are vectorised; errors of a few units in the
 * last place. ---- */

static inline int64_t bits_of(double x)
{
    int64_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

static inline double from_bits(int64_t i)
{
    double x;
    memcpy(&x, &i, sizeof x);
    return x;
}

static const double ROUND = 6755399441055744.0; /* 1.5 * 2^52: added and subtracted, it rounds to a whole number */
static const double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;

/* exp x = 2^n exp r with |r| <= ln(2)/2, by Taylor's series to r^13/13!, whose error is below 1e-17. */
static inline double exp_one(double x)
{
    const double limited = x < -708.0 ? -708.0 : (x > 709.7 ? 709.7 : x);
    const double shifted = limited * 1.44269504088896340736 + ROUND;
    const double n = shifted - ROUND;
    const double r = (limited - n * LN2_HIGH) - n * LN2_LOW;
    double s = 1.0 / 6227020800.0;
    s = s * r + 1.0 / 479001600.0;
    s = s * r + 1.0 / 39916800.0;
    s = s * r + 1.0 / 3628800.0;
    s = s * r + 1.0 / 362880.0;
    s = s * r + 1.0 / 40320.0;
    s = s * r + 1.0 / 5040.0;
    s = s * r + 1.0 / 720.0;
    s = s * r + 1.0 / 120.0;
    s = s * r + 1.0 / 24.0;
    s = s * r + 1.0 / 6.0;
    s = s * r + 0.5;
    s = s * r + 1.0;
    s = s * r + 1.0;
    /* The exponent in two halves: 2^1024 is not a number, although its product with s may be. */
    const int64_t whole = bits_of(shifted) - bits_of(ROUND);
    const int64_t half = whole >> 1;
    const double y = s * from_bits((half + 1023) << 52) * from_bits((whole - half + 1023) << 52);
    return x < -708.0 ? 0.0 : (x > 709.7 ? HUGE_VAL : (x == x ? y : x));
}

/* log x = n ln 2 + log m with m between sqrt(1/2) and sqrt 2, and log m = 2 artanh((m - 1)/(m + 1)). */
static inline double log_one(double x)
{
    const int tiny = x < 2.2250738585072014e-308;
    const double scaled = tiny ? x * 18014398509481984.0 : x; /* 2^54 */
    const int64_t i = bits_of(scaled) - 0x3fe6a09e667f3bcd;   /* the bits of sqrt(1/2) */
    /* The shift of a signed number keeps its sign. A small whole number becomes a double by the bits of ROUND. */
    const double n = from_bits(bits_of(ROUND) + (i >> 52)) - ROUND - (tiny ? 54.0 : 0.0);
    const double m = from_bits((i & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd);
    const double f = m - 1.0, s = f / (2.0 + f), z = s * s;
    double p = 1.0 / 21.0;
    p = p * z + 1.0 / 19.0;
    p = p * z + 1.0 / 17.0;
    p = p * z + 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    /* 2 artanh s = f - s (f - 2 z p): the leading term f is exact. */
    const double y = n * LN2_HIGH + (f - (s * (f - 2.0 * z * p) - n * LN2_LOW));
    return x > 0.0 ? (x < HUGE_VAL ? y : x) : (x == 0.0 ? -HUGE_VAL : NAN);
}

/* sin and cos: x = n π/2 + r in three parts, Taylor's series to r^17/17! and r^18/18!; for large x, libm. */
static inline void sin_cos_one(double x, int shift, double *y)
{
    const double shifted = x * 0.63661977236758134308 + ROUND, n = shifted - ROUND;
    const double r = ((x - n * 1.57079632673412561417e+00) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21;
    const double z = r * r;
    double s = 1.0 / 355687428096000.0;
    s = s * z - 1.0 / 1307674368000.0;
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = s * z * r + r;
    double c = -1.0 / 6402373705728000.0;
    c = c * z + 1.0 / 20922789888000.0;
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = c * z - 0.5;
    c = c * z + 1.0;
    const int64_t quarter = bits_of(shifted) + shift; /* the lowest bits of the shifted number count the quarters */
    const double v = (quarter & 1) ? c : s;
    *y = (quarter & 2) ? -v : v;
}

static void sin_cos_tile(const double *x, int shift, double *y)
{
    double largest = 0.0;
    for (int e = 0; e < TILE; e++)
        largest = fabs(x[e]) > largest ? fabs(x[e]) : largest;
    if (largest < 1e5)
        for (int e = 0; e < TILE; e++)
            sin_cos_one(x[e], shift, y + e);
    else
        for (int e = 0; e < TILE; e++)
            y[e] = shift ? cos(x[e]) : sin(x[e]);
}

/* a^b = exp(b log a); negative bases, which may have a whole exponent, by libm. */
static void power_tile(const double *a, const double *b, double *y)
{
    double least = 0.0;
    for (int e = 0; e < TILE; e++)
        least = a[e] < least ? a[e] : least;
    if (least < 0.0)
        for (int e = 0; e < TILE; e++)
            y[e] = pow(a[e], b[e]);
    else
        for (int e = 0; e < TILE; e++)
            y[e] = b[e] == 0.0 ? 1.0 : exp_one(b[e] * log_one(a[e]));
}

/* ---- The tape ---- */

typedef struct {
    idx operations, prologue, registers, constants, outputs, positive; /* `positive`: replace states of zero */
    const int32_t *code, *output;
    const double *constant;
} Tape;

/* Read a tape from six sizes and three pointers. */
static Tape read_tape(const idx *size, void *const *pointer)
{
    Tape tape = {size[0], size[1], size[2], size[3], size[4], size[5],
                 (const int32_t *)pointer[0], (const int32_t *)pointer[1], (const double *)pointer[2]};
    return tape;
}

#define EACH(EXPRESSION)                                                                                               \
    for (int e = 0; e < TILE; e++)                                                                                     \
        y[e] = EXPRESSION;                                                                                             \
    break;

/* Run operations first to last - 1 on the registers R (registers, TILE). */
static void run_tape(const Tape *tape, idx first, idx last, double *R)
{
    const int32_t *code = tape->code + 4 * first;
    for (idx k = first; k < last; k++, code += 4) {
        double *y = R + (idx)code[1] * TILE;
        const double *a = R + (idx)code[2] * TILE, *b = R + (idx)code[3] * TILE;
        switch (code[0]) {
        case 0: EACH(a[e] + b[e])
        case 1: EACH(a[e] - b[e])
        case 2: EACH(a[e] * b[e])
        case 3: EACH(a[e] / b[e])
        case 4: EACH(-a[e])
        case 5: EACH(1.0 / a[e])
        case 6: EACH(sqrt(a[e]))
        case 7: power_tile(a, b, y); break;
        case 8: EACH(exp_one(a[e]))
        case 9: EACH(log_one(a[e]))
        case 10: sin_cos_tile(a, 0, y); break;
        case 11: sin_cos_tile(a, 1, y); break;
        case 12: EACH(tan(a[e]))
        case 13: EACH(asin(a[e]))
        case 14: EACH(acos(a[e]))
        case 15: EACH(atan(a[e]))
        case 16: EACH(sinh(a[e]))
        case 17: EACH(cosh(a[e]))
        case 18: EACH(tanh(a[e]))
        case 19: EACH(asinh(a[e]))
        case 20: EACH(acosh(a[e]))
        case 21: EACH(atanh(a[e]))
        case 22: EACH(erf(a[e]))
        case 23: EACH(erfc(a[e]))
        }
    }
}

/* ---- What all passes share: sizes, tapes, the mesh, and where derivatives are ---- */

/* Sizes, in the order of `passes.py`. */
enum {
    S_D, S_I, S_J, S_F, S_K, S_NODES, S_Q, S_ENTRIES, S_SAMPLES, S_PAIRS_AA, S_PAIRS_AP, S_VALUES, S_BY_STATE, S_BY_PARAMETER,
    S_H_BY_STATE, S_H_BY_PARAMETER, S_HAS_BEFORE, S_INPUTS_VARY, S_SUBSTEPS, S_JUMP_REGISTERS, S_WINDOWS, S_TAPES
};

/* Pointers, in the order of `passes.py`. */
enum {
    P_TIMES, P_KIND, P_VALUE_ROW, P_BY_STATE, P_BY_PARAMETER, P_PAIRS_AA, P_PAIRS_AP, P_ENTRIES, P_ENTRY_WEIGHT,
    P_H_BY_STATE, P_H_BY_PARAMETER, P_NOISE, P_INPUTS_BEFORE, P_INPUTS_AFTER, P_INPUTS_MIDDLE, P_INPUTS_SUBSTEP,
    P_X, P_P, P_CHAIN, P_Y0, P_GAP0, P_DATA, P_WEIGHT, P_FLOOR, P_PRECISION, P_OFFSET, P_DEFECT, P_STEPS, P_H, P_G,
    P_SQUARES, P_CLOSED, P_DEFECTS, P_GROWTH, P_RESIDUALS, P_ROWS, P_MOVE, P_SHARE, P_DRIFT, P_WINDOW_BEGIN, P_WINDOW, P_WINDOW_WEIGHT, P_LEFT, P_SCALE, P_TAPES
};

typedef struct {
    const idx *s;
    void *const *p;
    idx D, I, J, F, Q, n, K, nodes;
    Tape f, values, h; /* right-hand side with and without derivatives, observables */
} Plan;

static Plan read_plan(const idx *s, void *const *p)
{
    Plan plan = {s, p, s[S_D], s[S_I], s[S_J], s[S_F], s[S_Q], s[S_Q] + s[S_F], s[S_K], s[S_NODES],
                 {0}, {0}, {0}};
    plan.f = read_tape(s + S_TAPES, p + P_TAPES);
    plan.values = read_tape(s + S_TAPES + 6, p + P_TAPES + 3);
    plan.h = read_tape(s + S_TAPES + 12, p + P_TAPES + 6);
    return plan;
}

static inline double *doubles(const Plan *plan, int which) { return (double *)plan->p[which]; }
static inline const idx *indices(const Plan *plan, int which) { return (const idx *)plan->p[which]; }

#define W 8
#define NAME(name) JOIN(JOIN(name, 8), SET)
#include "lanes.h"
#undef W
#undef NAME
#define W 1
#define NAME(name) JOIN(JOIN(name, 1), SET)
#include "lanes.h"

/* The order of the tables of sizes and pointers; raised with each change, so that Python never uses an old library. */
#if defined(DISPATCH)
API idx engine_version(void) { return 3; }
#endif

/* The widest instruction set of this machine, of those that the library was compiled for: 2, 1 or 0. */
#if defined(DISPATCH)
API idx engine_level(void)
{
#if defined(HAS_SETS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return 2;
    if (__builtin_cpu_supports("avx2"))
        return 1;
#endif
    return 0;
}
#endif
