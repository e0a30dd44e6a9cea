/* Passes over the intervals of a mesh, one behind the other: what NumPy can only do with a call for each interval, or
 * with arrays that leave the cache. `linalg/chain.py`, `linalg/saddle.py` and `collocation/simpson.py` say what each of
 * them computes, and do the same without a compiler. Arrays are C-ordered; `node[m]` is the left end of interval m, its
 * right end is the node behind it; neighbouring intervals are linked if they share a node. No state, no allocation, no errors but those
 * returned: safe in threads.
 */
#include <math.h>
#include <stdint.h>

#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif

typedef int64_t idx;

/* Cholesky of S = A diag(v) A', A = (left, right) by rows of D: T (M, D, D) lower, X (M, D, D) what is below it.
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

/* y -= a x, n numbers. */
static inline void less(idx n, double a, const double *x, double *y)
{
    for (idx c = 0; c < n; c++)
        y[c] -= a * x[c];
}

/* b (M, D, n) becomes L^-1 b. */
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
                    less(n, x[i * D + k], before + k * n, yi);
            for (idx k = 0; k < i; k++)
                less(n, t[i * D + k], y + k * n, yi);
            const double inverse = 1.0 / t[i * D + i];
            for (idx c = 0; c < n; c++)
                yi[c] *= inverse;
        }
    }
}

/* b (M, D, n) becomes L^-T b. */
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
                    less(n, x[k * D + i], after + k * n, zi);
            for (idx k = i + 1; k < D; k++)
                less(n, t[k * D + i], z + k * n, zi);
            const double inverse = 1.0 / t[i * D + i];
            for (idx c = 0; c < n; c++)
                zi[c] *= inverse;
        }
    }
}

/* out (M, D, n) = A d, d (nodes, D, n). */
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

/* out (nodes, D, n), zero before, += A' z, z (M, D, n). */
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

/* Simpson's rule with the cubic Hermite midpoint, and its derivatives. Rows of `width` numbers hold what is not zero of
 * f, df/dx and df/dp, in this order: at the beginning of each interval, at its end, in its middle. `at` (width, 2) says
 * which: (a, -) for f, (a, b) for df/dx, (a, j) for df/dp; nf, nx and the rest are of each. `work` has room for
 * 3 D D numbers. */
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
                const double half = 2.0 * Fm[i * D + j], one = i == j ? 1.0 : 0.0;
                l[i * D + j] = -one - s * (F0[i * D + j] + half + 4.0 * w * a0);
                r[i * D + j] = one - s * (F1[i * D + j] + half - 4.0 * w * a1);
            }
        for (idx i = 0; i < DJ; i++)
            g[i] = 0.0;
        for (idx k = nf + nx; k < width; k++) {
            const idx a = at[2 * k], j = at[2 * k + 1];
            const double moved = 4.0 * w * (b[k] - e[k]);
            g[a * J + j] -= s * (b[k] + 4.0 * q[k] + e[k]);
            if (moved != 0.0)
                for (idx i = 0; i < D; i++)
                    g[i * J + j] -= s * Fm[i * D + a] * moved;
        }
    }
}

/* y (N, D, n): y[0] = 0, then right[m] y[m+1] = -(left[m] y[m] + q[m]), by elimination with pivots. `work` has room for
 * D D numbers. Returns 0, or 1 + the node at which `right` is singular. */
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
                    less(n, l[i * D + k], before + k * n, z + i * n);
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
                    less(D - j - 1, factor, work + j * D + j + 1, work + i * D + j + 1);
                    less(n, factor, z + j * n, z + i * n);
                }
            }
        }
        for (idx i = D - 1; i >= 0; i--) {
            for (idx k = i + 1; k < D; k++)
                less(n, work[i * D + k], z + k * n, z + i * n);
            const double inverse = 1.0 / work[i * D + i];
            for (idx c = 0; c < n; c++)
                z[i * n + c] *= inverse;
        }
    }
    return 0;
}

/* [H A'; A -V] with A = (left, right), x and z interleaved node by node: k = 2 D - 1 numbers on each side of the
 * diagonal. Elimination with pivots: `upper` (2 N D, 2 k + 1), zero before, has each row from its diagonal on, `lower`
 * (2 N D, k) the factors below. Returns 0, or 1 + the row at which there is no pivot. */
API idx saddle_factor(idx N, idx D, const double *H, const double *left, const double *right, const double *V,
                      double *upper, double *lower, idx *pivots)
{
    const idx k = 2 * D - 1, width = 2 * k + 1, rows = 2 * N * D, DD = D * D;
    /* A row begins k before its diagonal, the first rows with the first column. */
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

/* b (rows, n) becomes the solution. */
API void saddle_solve(idx rows, idx k, idx n, const double *upper, const double *lower, const idx *pivots, double *b)
{
    const idx width = 2 * k + 1;
    for (idx j = 0; j < rows; j++) {
        double *here = b + j * n;
        if (pivots[j] != j)
            for (idx c = 0; c < n; c++) {
                const double swap = here[c];
                here[c] = b[pivots[j] * n + c];
                b[pivots[j] * n + c] = swap;
            }
        for (idx i = j + 1; i <= j + k && i < rows; i++)
            if (lower[j * k + i - j - 1] != 0.0)
                less(n, lower[j * k + i - j - 1], here, b + i * n);
    }
    for (idx i = rows - 1; i >= 0; i--) {
        double *here = b + i * n;
        for (idx c = 1; c < width && i + c < rows; c++)
            if (upper[i * width + c] != 0.0)
                less(n, upper[i * width + c], b + (i + c) * n, here);
        const double inverse = 1.0 / upper[i * width];
        for (idx c = 0; c < n; c++)
            here[c] *= inverse;
    }
}
