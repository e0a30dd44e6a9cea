/* Loops over the intervals of a mesh. NumPy would need one call for each interval, or arrays that do not fit into the
 * cache. `interval_chain.py`, `saddle_point.py` and `collocation/simpson_rule.py` define what each function computes,
 * and do the same in NumPy or LAPACK if there is no compiler.
 *
 * Arrays are C-ordered. node[m] is the node at the left end of interval m, and node[m] + 1 the one at its right end;
 * consecutive intervals are linked if they share a node. The functions have no state, allocate no memory and report no
 * errors but the number that they return, so that they may run in several threads.
 */
#include <math.h>
#include <stdint.h>

#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif

typedef int64_t idx;

/* Cholesky factor of S = A diag(v) A' with A = (left, right), in blocks of D rows: T (M, D, D) are the lower triangular
 * blocks on its diagonal, X (M, D, D) the blocks to the left of them, zero if the intervals are not linked.
 * Returns 0, or 1 + the interval at which S is not positive definite. */
API idx chain_factor(idx M, idx D, const idx *node, const double *left, const double *right, const double *v, double *T,
                     double *X)
{
    const idx DD = D * D;
    for (idx m = 0; m < M; m++) {
        const double *l = left + m * DD, *r = right + m * DD;
        const double *v0 = v + node[m] * D, *v1 = v0 + D;
        double *t = T + m * DD, *x = X + m * DD;
        for (idx i = 0; i < D; i++)
            for (idx j = 0; j <= i; j++) {
                double s = 0.0;
                for (idx k = 0; k < D; k++)
                    s += l[i * D + k] * v0[k] * l[j * D + k] + r[i * D + k] * v1[k] * r[j * D + k];
                t[i * D + j] = s;
            }
        if (m && node[m] == node[m - 1] + 1) {
            /* x = l diag(v0) r_before' T_before^-T */
            const double *rb = r - DD, *tb = t - DD;
            for (idx i = 0; i < D; i++)
                for (idx j = 0; j < D; j++) {
                    double s = 0.0;
                    for (idx k = 0; k < D; k++)
                        s += l[i * D + k] * v0[k] * rb[j * D + k];
                    for (idx k = 0; k < j; k++)
                        s -= x[i * D + k] * tb[j * D + k];
                    x[i * D + j] = s / tb[j * D + j];
                }
            for (idx i = 0; i < D; i++)
                for (idx j = 0; j <= i; j++) {
                    double s = 0.0;
                    for (idx k = 0; k < D; k++)
                        s += x[i * D + k] * x[j * D + k];
                    t[i * D + j] -= s;
                }
        } else
            for (idx i = 0; i < DD; i++)
                x[i] = 0.0;
        for (idx j = 0; j < D; j++) {
            double s = t[j * D + j];
            for (idx k = 0; k < j; k++)
                s -= t[j * D + k] * t[j * D + k];
            if (!(s > 0.0) || !isfinite(s))
                return m + 1;
            const double root = sqrt(s);
            t[j * D + j] = root;
            for (idx i = j + 1; i < D; i++) {
                double q = t[i * D + j];
                for (idx k = 0; k < j; k++)
                    q -= t[i * D + k] * t[j * D + k];
                t[i * D + j] = q / root;
            }
            for (idx i = 0; i < j; i++)
                t[i * D + j] = 0.0;
        }
    }
    return 0;
}

/* y -= a x, for n numbers. */
static inline void subtract_multiple(idx n, double a, const double *x, double *y)
{
    for (idx c = 0; c < n; c++)
        y[c] -= a * x[c];
}

/* Replace b (M, D, n) by L^-1 b. */
API void chain_whiten(idx M, idx D, idx n, const idx *node, const double *T, const double *X, double *b)
{
    const idx DD = D * D;
    for (idx m = 0; m < M; m++) {
        const double *t = T + m * DD, *x = X + m * DD;
        double *y = b + m * D * n;
        const double *before = y - D * n;
        const int linked = m && node[m] == node[m - 1] + 1;
        for (idx i = 0; i < D; i++) {
            double *yi = y + i * n;
            if (linked)
                for (idx k = 0; k < D; k++)
                    subtract_multiple(n, x[i * D + k], before + k * n, yi);
            for (idx k = 0; k < i; k++)
                subtract_multiple(n, t[i * D + k], y + k * n, yi);
            const double inverse = 1.0 / t[i * D + i];
            for (idx c = 0; c < n; c++)
                yi[c] *= inverse;
        }
    }
}

/* Replace b (M, D, n) by L^-T b. */
API void chain_back(idx M, idx D, idx n, const idx *node, const double *T, const double *X, double *b)
{
    const idx DD = D * D;
    for (idx m = M - 1; m >= 0; m--) {
        const double *t = T + m * DD, *x = X + (m + 1) * DD;
        double *z = b + m * D * n;
        const double *after = z + D * n;
        const int linked = m + 1 < M && node[m + 1] == node[m] + 1;
        for (idx i = D - 1; i >= 0; i--) {
            double *zi = z + i * n;
            if (linked)
                for (idx k = 0; k < D; k++)
                    subtract_multiple(n, x[k * D + i], after + k * n, zi);
            for (idx k = i + 1; k < D; k++)
                subtract_multiple(n, t[k * D + i], z + k * n, zi);
            const double inverse = 1.0 / t[i * D + i];
            for (idx c = 0; c < n; c++)
                zi[c] *= inverse;
        }
    }
}

/* Write A d to out (M, D, n), for d (nodes, D, n). */
API void chain_apply(idx M, idx D, idx n, const idx *node, const double *left, const double *right, const double *d,
                     double *out)
{
    const idx DD = D * D;
    for (idx m = 0; m < M; m++) {
        const double *d0 = d + node[m] * D * n, *d1 = d0 + D * n;
        for (idx i = 0; i < D; i++) {
            double *o = out + (m * D + i) * n;
            for (idx c = 0; c < n; c++)
                o[c] = 0.0;
            for (idx k = 0; k < D; k++) {
                const double a = left[m * DD + i * D + k], b = right[m * DD + i * D + k];
                for (idx c = 0; c < n; c++)
                    o[c] += a * d0[k * n + c] + b * d1[k * n + c];
            }
        }
    }
}

/* Add A' z to out (nodes, D, n), for z (M, D, n). */
API void chain_transposed(idx M, idx D, idx n, const idx *node, const double *left, const double *right,
                          const double *z, double *out)
{
    const idx DD = D * D;
    for (idx m = 0; m < M; m++) {
        double *d0 = out + node[m] * D * n, *d1 = d0 + D * n;
        for (idx i = 0; i < D; i++) {
            const double *o = z + (m * D + i) * n;
            for (idx k = 0; k < D; k++) {
                const double a = left[m * DD + i * D + k], b = right[m * DD + i * D + k];
                for (idx c = 0; c < n; c++) {
                    d0[k * n + c] += a * o[c];
                    d1[k * n + c] += b * o[c];
                }
            }
        }
    }
}

/* Simpson's rule with the cubic Hermite midpoint,
 *
 *     c = x1 - x0 - h/6 (f0 + 4 f(xm) + f1),    xm = (x0 + x1)/2 + h/8 (f0 - f1),
 *
 * and its derivatives by x0 (left), x1 (right) and p (G). Each row of `begin`, `end` and `middle` holds the `width`
 * structural nonzeros of f (nf of them), df/dx (nx) and df/dp (the rest) at the beginning, the end and the middle of an
 * interval. `at` (width, 2) gives the position of each: (a, -) for f_a, (a, b) for df_a/dx_b, (a, j) for df_a/dp_j.
 * `work` has room for 3 D D numbers. */
API void simpson(idx M, idx D, idx J, idx nf, idx nx, idx width, const idx *at, const double *h, const double *x0,
                 const double *x1, const double *begin, const double *end, const double *middle, double *work, double *c,
                 double *left, double *right, double *G)
{
    const idx DD = D * D, DJ = D * J;
    double *F0 = work, *F1 = F0 + DD, *Fm = F1 + DD;
    for (idx i = 0; i < 3 * DD; i++)
        work[i] = 0.0;
    for (idx m = 0; m < M; m++) {
        const double *b = begin + m * width, *e = end + m * width, *q = middle + m * width;
        const double s = h[m] / 6.0, w = h[m] / 8.0;
        double *cm = c + m * D, *l = left + m * DD, *r = right + m * DD, *g = G + m * DJ;
        for (idx i = 0; i < D; i++)
            cm[i] = x1[m * D + i] - x0[m * D + i];
        for (idx k = 0; k < nf; k++)
            cm[at[2 * k]] -= s * (b[k] + 4.0 * q[k] + e[k]);
        for (idx k = nf; k < nf + nx; k++) {
            const idx o = at[2 * k] * D + at[2 * k + 1];
            F0[o] = b[k];
            F1[o] = e[k];
            Fm[o] = q[k];
        }
        for (idx i = 0; i < D; i++)
            for (idx j = 0; j < D; j++) {
                double a0 = 0.0, a1 = 0.0;
                for (idx k = 0; k < D; k++) {
                    a0 += Fm[i * D + k] * F0[k * D + j];
                    a1 += Fm[i * D + k] * F1[k * D + j];
                }
                const double half = 2.0 * Fm[i * D + j], unit = i == j ? 1.0 : 0.0;
                l[i * D + j] = -unit - s * (F0[i * D + j] + half + 4.0 * w * a0);
                r[i * D + j] = unit - s * (F1[i * D + j] + half - 4.0 * w * a1);
            }
        for (idx i = 0; i < DJ; i++)
            g[i] = 0.0;
        for (idx k = nf + nx; k < width; k++) {
            const idx a = at[2 * k], j = at[2 * k + 1];
            const double shift = 4.0 * w * (b[k] - e[k]);
            g[a * J + j] -= s * (b[k] + 4.0 * q[k] + e[k]);
            if (shift != 0.0)
                for (idx i = 0; i < D; i++)
                    g[i * J + j] -= s * Fm[i * D + a] * shift;
        }
    }
}

/* Solve y[0] = 0, right[m] y[m+1] = -(left[m] y[m] + q[m]) for y (N, D, n), by elimination with row pivoting. `work` has
 * room for D D numbers. Returns 0, or 1 + the node at which `right` is singular. */
API idx chain_march(idx N, idx D, idx n, const double *left, const double *right, const double *q, double *work, double *y)
{
    const idx DD = D * D;
    for (idx i = 0; i < D * n; i++)
        y[i] = 0.0;
    for (idx m = 0; m + 1 < N; m++) {
        const double *l = left + m * DD, *b = q + m * D * n, *before = y + m * D * n;
        double *z = y + (m + 1) * D * n;
        for (idx i = 0; i < DD; i++)
            work[i] = right[m * DD + i];
        for (idx i = 0; i < D; i++) {
            for (idx c = 0; c < n; c++)
                z[i * n + c] = -b[i * n + c];
            for (idx k = 0; k < D; k++)
                if (l[i * D + k] != 0.0)
                    subtract_multiple(n, l[i * D + k], before + k * n, z + i * n);
        }
        for (idx j = 0; j < D; j++) {
            idx best = j;
            for (idx i = j + 1; i < D; i++)
                if (fabs(work[i * D + j]) > fabs(work[best * D + j]))
                    best = i;
            if (!(fabs(work[best * D + j]) > 0.0))
                return m + 1;
            if (best != j) {
                for (idx k = j; k < D; k++) {
                    const double swap = work[j * D + k];
                    work[j * D + k] = work[best * D + k];
                    work[best * D + k] = swap;
                }
                for (idx c = 0; c < n; c++) {
                    const double swap = z[j * n + c];
                    z[j * n + c] = z[best * n + c];
                    z[best * n + c] = swap;
                }
            }
            const double inverse = 1.0 / work[j * D + j];
            for (idx i = j + 1; i < D; i++) {
                const double factor = work[i * D + j] * inverse;
                if (factor != 0.0) {
                    subtract_multiple(D - j - 1, factor, work + j * D + j + 1, work + i * D + j + 1);
                    subtract_multiple(n, factor, z + j * n, z + i * n);
                }
            }
        }
        for (idx i = D - 1; i >= 0; i--) {
            for (idx k = i + 1; k < D; k++)
                subtract_multiple(n, work[i * D + k], z + k * n, z + i * n);
            const double inverse = 1.0 / work[i * D + i];
            for (idx c = 0; c < n; c++)
                z[i * n + c] *= inverse;
        }
    }
    return 0;
}

/* Factorise [H A'; A -V] with A = (left, right) and x and z interleaved node by node, which has k = 2 D - 1 diagonals on
 * each side of the main one, by elimination with row pivoting. `upper` (2 N D, 2 k + 1), zero on entry, receives each row
 * of the upper factor from its diagonal on, `lower` (2 N D, k) the multipliers of the elimination. Returns 0, or 1 + the
 * row without a pivot. */
API idx saddle_factor(idx N, idx D, const double *H, const double *left, const double *right, const double *V,
                      double *upper, double *lower, idx *pivots)
{
    const idx k = 2 * D - 1, width = 2 * k + 1, rows = 2 * N * D, DD = D * D;
    /* At first a row of `upper` begins k columns before its diagonal, but not before the first column of the matrix. */
    for (idx m = 0; m < N; m++)
        for (idx i = 0; i < D; i++) {
            const idx x = 2 * D * m + i, z = x + D;
            double *of_x = upper + x * width - (x > k ? x - k : 0), *of_z = upper + z * width - (z > k ? z - k : 0);
            for (idx j = 0; j < D; j++) {
                const idx column = 2 * D * m + j;
                if (m)
                    of_x[column - D] = right[(m - 1) * DD + j * D + i];
                of_x[column] = H[m * DD + i * D + j];
                of_x[column + D] = left[m * DD + j * D + i];
                of_z[column] = left[m * DD + i * D + j];
                if (m + 1 < N)
                    of_z[column + 2 * D] = right[m * DD + i * D + j];
            }
            of_z[z] = -V[m * D + i];
        }
    for (idx j = 0; j < rows; j++) {
        const idx last = j + k < rows ? j + k : rows - 1;
        double *a = upper + j * width;
        idx best = j;
        for (idx i = j + 1; i <= last; i++)
            if (fabs(upper[i * width]) > fabs(upper[best * width]))
                best = i;
        pivots[j] = best;
        if (!(fabs(upper[best * width]) > 0.0) || !isfinite(upper[best * width]))
            return j + 1;
        if (best != j)
            for (idx c = 0; c < width; c++) {
                const double swap = a[c];
                a[c] = upper[best * width + c];
                upper[best * width + c] = swap;
            }
        const double inverse = 1.0 / a[0];
        for (idx i = j + 1; i <= last; i++) {
            double *row = upper + i * width;
            const double factor = row[0] * inverse;
            lower[j * k + i - j - 1] = factor;
            for (idx c = 1; c < width; c++)
                row[c - 1] = row[c] - factor * a[c];
            row[width - 1] = 0.0;
        }
    }
    return 0;
}

/* Replace b (rows, n) by the solution, with the factors of saddle_factor. */
API void saddle_solve(idx rows, idx k, idx n, const double *upper, const double *lower, const idx *pivots, double *b)
{
    const idx width = 2 * k + 1;
    for (idx j = 0; j < rows; j++) {
        double *bj = b + j * n;
        if (pivots[j] != j)
            for (idx c = 0; c < n; c++) {
                const double swap = bj[c];
                bj[c] = b[pivots[j] * n + c];
                b[pivots[j] * n + c] = swap;
            }
        for (idx i = j + 1; i <= j + k && i < rows; i++)
            if (lower[j * k + i - j - 1] != 0.0)
                subtract_multiple(n, lower[j * k + i - j - 1], bj, b + i * n);
    }
    for (idx i = rows - 1; i >= 0; i--) {
        double *bi = b + i * n;
        for (idx c = 1; c < width && i + c < rows; c++)
            if (upper[i * width + c] != 0.0)
                subtract_multiple(n, upper[i * width + c], b + (i + c) * n, bi);
        const double inverse = 1.0 / upper[i * width];
        for (idx c = 0; c < n; c++)
            bi[c] *= inverse;
    }
}
