/* The passes for W lanes; included by `engine.c`. Every array ends in the axis of the lanes. */

#define LANES _Pragma("omp simd") for (int l = 0; l < W; l++)
enum { NAME(NODES) = TILE / W };
#define T NAME(NODES) /* nodes in a tile */

/* Put a number for each lane into a register, the same for all nodes of the tile. */
static inline void NAME(spread)(double *restrict reg, const double *restrict lanes)
{
    for (int j = 0; j < T; j++)
        LANES reg[j * W + l] = lanes[l];
}

/* Set the constants and the parameters p (J, W), and run the prologue. */
static void NAME(begin_tape)(const Plan *plan, const Tape *tape, const double *p, double *R)
{
    const idx first = 1 + plan->D + plan->I;
    memset(R, 0, sizeof(double) * tape->registers * TILE);
    for (idx j = 0; j < plan->J; j++)
        NAME(spread)(R + (first + j) * TILE, p + j * W);
    for (idx c = 0; c < tape->constants; c++)
        for (int e = 0; e < TILE; e++)
            R[(first + plan->J + c) * TILE + e] = tape->constant[c];
    run_tape(tape, 0, tape->prologue, R);
}

/* Run the tape at `count` nodes: states x (count, D, W), times (count), inputs (count, I, W) or (count, I). */
static void NAME(run_at)(const Plan *plan, const Tape *tape, idx count, const double *t, const double *x,
                         const double *inputs, double *R)
{
    const idx D = plan->D, I = plan->I;
    for (idx j = 0; j < count; j++) {
        LANES R[j * W + l] = t[j];
        for (idx d = 0; d < D; d++)
            LANES
            {
                const double value = x[(j * D + d) * W + l];
                R[(1 + d) * TILE + j * W + l] = tape->positive && value == 0.0 ? 1e-300 : value;
            }
        if (plan->s[S_INPUTS_VARY])
            for (idx i = 0; i < I; i++)
                LANES R[(1 + D + i) * TILE + j * W + l] = inputs[(j * I + i) * W + l];
        else
            for (idx i = 0; i < I; i++)
                LANES R[(1 + D + i) * TILE + j * W + l] = inputs[j * I + i];
    }
    run_tape(tape, tape->prologue, tape->operations, R);
}

/* Copy the outputs of a tile to out (count, outputs, W). */
static void NAME(read_outputs)(const Tape *tape, idx count, const double *R, double *out)
{
    for (idx j = 0; j < count; j++)
        for (idx o = 0; o < tape->outputs; o++)
            LANES out[(j * tape->outputs + o) * W + l] = R[(idx)tape->output[o] * TILE + j * W + l];
}

/* Solve M b = b for `columns` right-hand sides b (D, columns, W) by elimination without pivoting; M (D, D, W), which is
 * the unit matrix up to half a step of the derivatives, is overwritten. */
static void NAME(solve)(idx D, idx columns, double *M, double *b)
{
    for (idx k = 0; k < D; k++) {
        double pivot[W];
        LANES pivot[l] = 1.0 / M[(k * D + k) * W + l];
        for (idx j = k + 1; j < D; j++)
            LANES M[(k * D + j) * W + l] *= pivot[l];
        for (idx c = 0; c < columns; c++)
            LANES b[(k * columns + c) * W + l] *= pivot[l];
        for (idx i = k + 1; i < D; i++) {
            double factor[W];
            LANES factor[l] = M[(i * D + k) * W + l];
            for (idx j = k + 1; j < D; j++)
                LANES M[(i * D + j) * W + l] -= factor[l] * M[(k * D + j) * W + l];
            for (idx c = 0; c < columns; c++)
                LANES b[(i * columns + c) * W + l] -= factor[l] * b[(k * columns + c) * W + l];
        }
    }
    for (idx k = D - 1; k > 0; k--)
        for (idx i = 0; i < k; i++) {
            double factor[W];
            LANES factor[l] = M[(i * D + k) * W + l];
            for (idx c = 0; c < columns; c++)
                LANES b[(i * columns + c) * W + l] -= factor[l] * b[(k * columns + c) * W + l];
        }
}

/* Scratch memory of a call, in one block. */
typedef struct {
    double *R, *Rh, *nodes, *before, *middle, *mid_x, *M, *c, *Y, *Y_new, *s, *s_new, *h, *h_before, *v, *vs, *block, *jump, *state[7], *memory;
} NAME(Scratch);

static int NAME(allocate)(const Plan *plan, NAME(Scratch) * w)
{
    const idx D = plan->D, n = plan->n, K = plan->K, no = plan->f.outputs;
    const idx size[] = {
        (plan->f.registers > plan->values.registers ? plan->f.registers : plan->values.registers) * TILE,
        plan->h.registers * TILE, (T + 1) * no * W, (T + 1) * no * W, T * no * W, T * D * W, D * D * W, D * W,
        D * n * W, D * n * W, D * W, D * W, (T * plan->h.outputs + 1) * W, (T * plan->h.outputs + 1) * W, K * (n + 1) * W, K * 2 * W,
        D * (D + plan->F + 1) * W, plan->s[S_JUMP_REGISTERS] * TILE, T * D * W, T * D * W, T * D * W, T * D * W, T * D * W,
        T * D * W, T * D * W};
    double **place[] = {&w->R, &w->Rh, &w->nodes, &w->before, &w->middle, &w->mid_x, &w->M, &w->c, &w->Y, &w->Y_new,
                        &w->s, &w->s_new, &w->h, &w->h_before, &w->v, &w->vs, &w->block, &w->jump, w->state, w->state + 1,
                        w->state + 2, w->state + 3, w->state + 4, w->state + 5, w->state + 6};
    enum { COUNT = sizeof size / sizeof *size };
    idx total = 8;
    for (int k = 0; k < COUNT; k++)
        total += (size[k] + 7) / 8 * 8;
    w->memory = (double *)malloc(sizeof(double) * total);
    if (!w->memory)
        return 1;
    double *next = (double *)(((uintptr_t)w->memory + 63) & ~(uintptr_t)63);
    for (int k = 0; k < COUNT; k++) {
        *place[k] = next;
        next += (size[k] + 7) / 8 * 8;
    }
    return 0;
}

/* The linearised jump of the states at one time, x1 = E(x0, p): B and c as `linearise` returns them. */
static void NAME(linearise_jump)(const Plan *plan, idx kind, double t, const double *x0, const double *x1,
                                 const double *inputs, const double *p, const double *chain, NAME(Scratch) * w, double *B)
{
    const idx D = plan->D, F = plan->F, columns = D + F + 1;
    const Tape tape = read_tape(plan->s + S_TAPES + 18 + 6 * kind, plan->p + P_TAPES + 9 + 3 * kind);
    NAME(begin_tape)(plan, &tape, p, w->jump);
    NAME(run_at)(plan, &tape, 1, &t, x0, inputs, w->jump);
    for (idx d = 0; d < D; d++) {
        double *b = B + d * columns * W;
        const double *value = w->jump + (idx)tape.output[d] * TILE;
        LANES w->c[d * W + l] = x1[d * W + l] - value[l];
        LANES b[(D + F) * W + l] = -w->c[d * W + l];
        for (idx i = 0; i < D + F; i++) {
            const double *slope = w->jump + (idx)tape.output[D + d * (D + F) + i] * TILE;
            LANES b[i * W + l] = slope[l] * (i < D ? 1.0 : chain[(i - D) * W + l]);
        }
    }
}

/* The linearised step over one interval: B (D, D + F + 1, W) = (Φ, Γ, d), and the defect c (D, W).
 * f0, f1, fm are outputs of the tape at both ends and in the middle; M and c are scratch (D, D, W) and (D, W). */
static void NAME(linearise)(const Plan *plan, double h, const double *x0, const double *x1, const double *f0,
                            const double *f1, const double *fm, const double *offset, const double *chain, double *M,
                            double *c, double *B)
{
    const idx D = plan->D, F = plan->F, columns = D + F + 1;
    const idx nf = plan->s[S_VALUES], nA = plan->s[S_BY_STATE], nP = plan->s[S_BY_PARAMETER];
    const idx *row = indices(plan, P_VALUE_ROW), *byA = indices(plan, P_BY_STATE), *byP = indices(plan, P_BY_PARAMETER);
    const double h6 = h / 6.0, h3 = h / 3.0, hh = h * h / 12.0;
    memset(M, 0, sizeof(double) * D * D * W);
    memset(B, 0, sizeof(double) * D * columns * W);
    for (idx d = 0; d < D; d++)
        LANES
        {
            c[d * W + l] = x1[d * W + l] - x0[d * W + l];
            M[(d * D + d) * W + l] = 1.0;
            B[(d * columns + d) * W + l] = 1.0;
        }
    for (idx k = 0; k < nf; k++) {
        double *cd = c + row[k] * W;
        LANES cd[l] -= h6 * (f0[k * W + l] + 4.0 * fm[k * W + l] + f1[k * W + l]);
    }
    const double *A0 = f0 + nf * W, *A1 = f1 + nf * W, *Am = fm + nf * W;
    for (idx k = 0; k < nA; k++) {
        double *m = M + byA[k] * W, *b = B + (byA[k] / D * columns + byA[k] % D) * W;
        LANES
        {
            m[l] -= h6 * A1[k * W + l] + h3 * Am[k * W + l];
            b[l] += h6 * A0[k * W + l] + h3 * Am[k * W + l];
        }
    }
    const idx *pair = indices(plan, P_PAIRS_AA);
    for (idx k = 0; k < plan->s[S_PAIRS_AA]; k++, pair += 3) {
        const double *a = Am + pair[0] * W, *b0 = A0 + pair[1] * W, *b1 = A1 + pair[1] * W;
        double *m = M + pair[2] * W, *b = B + (pair[2] / D * columns + pair[2] % D) * W;
        LANES
        {
            m[l] += hh * a[l] * b1[l];
            b[l] += hh * a[l] * b0[l];
        }
    }
    const double *P0 = A0 + nA * W, *P1 = A1 + nA * W, *Pm = Am + nA * W;
    for (idx k = 0; k < nP; k++) {
        double *b = B + (byP[k] / F * columns + D + byP[k] % F) * W;
        LANES b[l] += h6 * (P0[k * W + l] + 4.0 * Pm[k * W + l] + P1[k * W + l]);
    }
    pair = indices(plan, P_PAIRS_AP);
    for (idx k = 0; k < plan->s[S_PAIRS_AP]; k++, pair += 3) {
        const double *a = Am + pair[0] * W, *b0 = P0 + pair[1] * W, *b1 = P1 + pair[1] * W;
        double *b = B + (pair[2] / F * columns + D + pair[2] % F) * W;
        LANES b[l] += hh * a[l] * (b0[l] - b1[l]);
    }
    for (idx d = 0; d < D; d++) {
        for (idx f = 0; f < F; f++)
            LANES B[(d * columns + D + f) * W + l] *= chain[f * W + l];
        if (offset)
            LANES c[d * W + l] += offset[d * W + l];
        LANES B[(d * columns + D + F) * W + l] = -c[d * W + l];
    }
    NAME(solve)(D, columns, M, B);
}

/* Add a completed sample to the sums: v (K, n + 1, W) holds its derivatives and, last, the change by the defects; its
 * values are in vs (K, W). */
static void NAME(add_sample)(const Plan *plan, idx group, idx sample, const double *value, double *v)
{
    const idx K = plan->K, n = plan->n, S = plan->s[S_SAMPLES];
    const idx *noise = indices(plan, P_NOISE);
    const double *precision = doubles(plan, P_PRECISION) + group * K * W;
    double *H = doubles(plan, P_H) + group * n * n * W, *g = doubles(plan, P_G) + group * n * W;
    double *squares = doubles(plan, P_SQUARES) + group * K * W, *closed = doubles(plan, P_CLOSED) + group * K * W;
    for (idx k = 0; k < K; k++) {
        const idx at = ((group * S + sample) * K + k) * W;
        const double *y = doubles(plan, P_DATA) + at, *weight = doubles(plan, P_WEIGHT) + at;
        double *vk = v + k * (n + 1) * W, r[W], rc[W], w2[W];
        if (noise[k]) { /* log-normal: the logarithm, continued linearly below the floor */
            const double *floor = doubles(plan, P_FLOOR) + at;
            LANES
            {
                const double u = value[k * W + l], low = floor[l], base = u > low ? u : low;
                r[l] = y[l] - (log_one(base) + (u - base) / base);
                w2[l] = 1.0 / base;
            }
            for (idx i = 0; i <= n; i++)
                LANES vk[i * W + l] *= w2[l];
        } else
            LANES r[l] = y[l] - value[k * W + l];
        /* A missing value has the weight 0; its residual must not be NaN. */
        LANES r[l] = weight[l] == 0.0 ? 0.0 : r[l] * weight[l];
        LANES rc[l] = r[l] - weight[l] * vk[n * W + l];
        LANES squares[k * W + l] += r[l] * r[l];
        LANES closed[k * W + l] += rc[l] * rc[l];
        LANES w2[l] = weight[l] * precision[k * W + l];
        if (plan->p[P_RESIDUALS])
            LANES doubles(plan, P_RESIDUALS)[at + l] = rc[l];
        if (plan->p[P_ROWS])
            for (idx i = 0; i < n; i++)
                LANES doubles(plan, P_ROWS)[(((group * S + sample) * K + k) * n + i) * W + l] = weight[l] * vk[i * W + l];
        for (idx i = 0; i < n; i++) {
            double a[W];
            LANES a[l] = w2[l] * vk[i * W + l];
            LANES g[i * W + l] += a[l] * rc[l];
            LANES a[l] *= weight[l];
            for (idx j = 0; j <= i; j++)
                LANES H[(i * n + j) * W + l] += a[l] * vk[j * W + l];
        }
    }
}

/* Linearise the problem at the states x and parameters p of one group, and sum what a step needs. */
static void NAME(linearise_group)(const Plan *plan, idx group, NAME(Scratch) * w)
{
    const idx D = plan->D, F = plan->F, Q = plan->Q, n = plan->n, K = plan->K, N = plan->nodes, I = plan->I;
    const idx no = plan->f.outputs, nh = plan->h.outputs, columns = D + F + 1, vary = plan->s[S_INPUTS_VARY];
    const idx has_before = plan->s[S_HAS_BEFORE], input_width = I * (vary ? W : 1);
    const double *times = doubles(plan, P_TIMES), *x = doubles(plan, P_X) + group * N * D * W;
    const double *p = doubles(plan, P_P) + group * plan->J * W, *chain = doubles(plan, P_CHAIN) + group * F * W;
    const idx per_group = vary ? group * N * input_width : 0;
    const double *after = I ? doubles(plan, P_INPUTS_AFTER) + per_group : 0;
    const double *left_limit = has_before ? doubles(plan, P_INPUTS_BEFORE) + per_group : 0;
    const double *centre = I ? doubles(plan, P_INPUTS_MIDDLE) + per_group : 0;
    const idx *entry = indices(plan, P_ENTRIES), *entry_end = entry + 3 * plan->s[S_ENTRIES];
    const double *entry_weight = doubles(plan, P_ENTRY_WEIGHT);
    double *defects = doubles(plan, P_DEFECTS) + group * D * W, *growth = doubles(plan, P_GROWTH) + group * W;
    double *steps = doubles(plan, P_STEPS);
    const double *offset = doubles(plan, P_OFFSET);
    const idx *kind = indices(plan, P_KIND);

    memset(doubles(plan, P_H) + group * n * n * W, 0, sizeof(double) * n * n * W);
    memset(doubles(plan, P_G) + group * n * W, 0, sizeof(double) * n * W);
    memset(doubles(plan, P_SQUARES) + group * K * W, 0, sizeof(double) * K * W);
    memset(doubles(plan, P_CLOSED) + group * K * W, 0, sizeof(double) * K * W);
    memset(defects, 0, sizeof(double) * D * W);
    memset(growth, 0, sizeof(double) * W);
    memcpy(w->Y, doubles(plan, P_Y0) + group * D * n * W, sizeof(double) * D * n * W);
    memcpy(w->s, doubles(plan, P_GAP0) + group * D * W, sizeof(double) * D * W);
    memset(w->v, 0, sizeof(double) * K * (n + 1) * W);
    memset(w->vs, 0, sizeof(double) * K * W);
    NAME(begin_tape)(plan, &plan->f, p, w->R);
    NAME(begin_tape)(plan, &plan->h, p, w->Rh);

    for (idx a = 0; a < N; a += T) {
        const idx count = N - a < T ? N - a : T;
        /* The last node of the tile before is the first one here. */
        if (a)
            memcpy(w->nodes, w->nodes + T * no * W, sizeof(double) * no * W);
        NAME(run_at)(plan, &plan->f, count, times + a, x + a * D * W, after + a * input_width, w->R);
        NAME(read_outputs)(&plan->f, count, w->R, w->nodes + no * W);
        const double *right = w->nodes;
        if (has_before) {
            NAME(run_at)(plan, &plan->f, count, times + a, x + a * D * W, left_limit + a * input_width, w->R);
            NAME(read_outputs)(&plan->f, count, w->R, w->before + no * W);
            right = w->before;
        }
        /* The intervals that end in this tile: their middles by Hermite's cubic. */
        double middle_times[T];
        for (idx j = 0; j < count; j++) {
            const idx m = a + j - 1; /* interval m ends at node m + 1 */
            double *xm = w->mid_x + j * D * W;
            if (m < 0) {
                middle_times[j] = times[0];
                memcpy(xm, x, sizeof(double) * D * W);
                continue;
            }
            const double h = times[m + 1] - times[m];
            middle_times[j] = times[m] + h / 2;
            const double *x0 = x + m * D * W, *x1 = x0 + D * W;
            for (idx d = 0; d < D; d++)
                LANES xm[d * W + l] = 0.5 * (x0[d * W + l] + x1[d * W + l]);
            for (idx k = 0; k < plan->s[S_VALUES]; k++) {
                double *xd = xm + indices(plan, P_VALUE_ROW)[k] * W;
                const double *f0 = w->nodes + (j * no + k) * W, *f1 = right + ((j + 1) * no + k) * W;
                LANES xd[l] += h / 8 * (f0[l] - f1[l]);
            }
        }
        /* The inputs in the middle of interval m are in row m + 1. */
        NAME(run_at)(plan, &plan->f, count, middle_times, w->mid_x, centre + a * input_width, w->R);
        NAME(read_outputs)(&plan->f, count, w->R, w->middle);
        const idx *here = entry;
        int sampled = 0, before_sampled = 0;
        while (here < entry_end && here[0] < a + count)
            sampled = 1, before_sampled |= here[2] & 2, here += 3;
        if (sampled && nh) {
            NAME(run_at)(plan, &plan->h, count, times + a, x + a * D * W, after + a * input_width, w->Rh);
            NAME(read_outputs)(&plan->h, count, w->Rh, w->h);
            if (has_before && before_sampled) {
                NAME(run_at)(plan, &plan->h, count, times + a, x + a * D * W, left_limit + a * input_width, w->Rh);
                NAME(read_outputs)(&plan->h, count, w->Rh, w->h_before);
            }
        }
        for (idx j = 0; j < count; j++) {
            const idx node = a + j;
            if (node) {
                const idx m = node - 1;
                double *B = steps ? steps + (group * (N - 1) + m) * D * columns * W : w->block;
                const double *x0 = x + m * D * W;
                const double *own_offset = offset ? offset + (group * (N - 1) + m) * D * W : 0;
                if (kind && kind[m] >= 0)
                    NAME(linearise_jump)(plan, kind[m], times[m], x0, x0 + D * W, after + m * input_width, p, chain, w, B);
                else
                    NAME(linearise)(plan, times[node] - times[m], x0, x0 + D * W, w->nodes + j * no * W,
                                    right + (j + 1) * no * W, w->middle + j * no * W, own_offset, chain, w->M, w->c, B);
                for (idx d = 0; d < D; d++)
                    LANES defects[d * W + l] += fabs(w->c[d * W + l]);
                /* Y <- Φ Y + (0, Γ), s <- Φ s + d */
                memset(w->Y_new, 0, sizeof(double) * D * n * W);
                for (idx d = 0; d < D; d++) {
                    double *to = w->Y_new + d * n * W, *st = w->s_new + d * W;
                    const double *b = B + d * columns * W;
                    for (idx f = 0; f < F; f++)
                        LANES to[(Q + f) * W + l] = b[(D + f) * W + l];
                    LANES st[l] = b[(D + F) * W + l];
                    for (idx k = 0; k < D; k++) {
                        const double *from = w->Y + k * n * W;
                        for (idx i = 0; i < n; i++)
                            LANES to[i * W + l] += b[k * W + l] * from[i * W + l];
                        LANES st[l] += b[k * W + l] * w->s[k * W + l];
                    }
                }
                double *swap = w->Y;
                w->Y = w->Y_new, w->Y_new = swap;
                swap = w->s, w->s = w->s_new, w->s_new = swap;
                for (idx d = 0; d < D; d++)
                    for (idx i = 0; i < Q; i++)
                        LANES
                        {
                            const double size = fabs(w->Y[(d * n + i) * W + l]);
                            growth[l] = size > growth[l] ? size : growth[l];
                        }
            }
            /* Samples: values are averages over one or more nodes. */
            for (; entry < entry_end && entry[0] == node; entry += 3, entry_weight++) {
                const double *observed = has_before && entry[2] & 2 ? w->h_before : w->h;
                const double q = *entry_weight, *out = observed + j * nh * W;
                for (idx k = 0; k < K; k++)
                    LANES w->vs[k * W + l] += q * out[k * W + l];
                const double *by_state = out + K * W;
                for (idx z = 0; z < plan->s[S_H_BY_STATE]; z++) {
                    const idx at = indices(plan, P_H_BY_STATE)[z], k = at / D, d = at % D;
                    double *vk = w->v + k * (n + 1) * W;
                    for (idx i = 0; i < n; i++)
                        LANES vk[i * W + l] += q * by_state[z * W + l] * w->Y[(d * n + i) * W + l];
                    LANES vk[n * W + l] += q * by_state[z * W + l] * w->s[d * W + l];
                }
                const double *by_parameter = by_state + plan->s[S_H_BY_STATE] * W;
                for (idx z = 0; z < plan->s[S_H_BY_PARAMETER]; z++) {
                    const idx at = indices(plan, P_H_BY_PARAMETER)[z], k = at / F, f = at % F;
                    double *vk = w->v + k * (n + 1) * W;
                    LANES vk[(Q + f) * W + l] += q * by_parameter[z * W + l] * chain[f * W + l];
                }
                if (entry[2] & 1) { /* the last node of the sample */
                    NAME(add_sample)(plan, group, entry[1], w->vs, w->v);
                    memset(w->v, 0, sizeof(double) * K * (n + 1) * W);
                    memset(w->vs, 0, sizeof(double) * K * W);
                }
            }
        }
    }
}

/* Linearise the groups whose indices are given. */
API idx NAME(engine_linearise)(const idx *sizes, void *const *pointers, idx groups, const idx *which)
{
    const Plan plan = read_plan(sizes, pointers);
    NAME(Scratch) w;
    if (NAME(allocate)(&plan, &w))
        return 1;
    for (idx k = 0; k < groups; k++)
        NAME(linearise_group)(&plan, which[k], &w);
    free(w.memory);
    return 0;
}

/* Move the states by share (W) times the step for delta (n, W), and sum the squares of the change of each state. */
API idx NAME(engine_move)(const idx *sizes, void *const *pointers, idx groups, const idx *which)
{
    const Plan plan = read_plan(sizes, pointers);
    const idx D = plan.D, F = plan.F, Q = plan.Q, n = plan.n, N = plan.nodes, columns = D + F + 1;
    double *change = (double *)malloc(sizeof(double) * 2 * D * W);
    if (!change)
        return 1;
    for (idx k = 0; k < groups; k++) {
        const idx group = which[k];
        double *now = change, *next = change + D * W, *x = doubles(&plan, P_X) + group * N * D * W;
        double *drift = doubles(&plan, P_DRIFT) + group * D * W;
        const double *Y0 = doubles(&plan, P_Y0) + group * D * n * W, *gap = doubles(&plan, P_GAP0) + group * D * W;
        const double *delta = doubles(&plan, P_MOVE) + group * n * W, *share = doubles(&plan, P_SHARE) + group * W;
        const double *B = doubles(&plan, P_STEPS) + group * (N - 1) * D * columns * W;
        memset(drift, 0, sizeof(double) * D * W);
        for (idx d = 0; d < D; d++) {
            LANES now[d * W + l] = gap[d * W + l];
            for (idx i = 0; i < n; i++)
                LANES now[d * W + l] += Y0[(d * n + i) * W + l] * delta[i * W + l];
        }
        for (idx m = 0; m < N; m++, x += D * W) {
            for (idx d = 0; d < D; d++)
                LANES
                {
                    const double moved = share[l] * now[d * W + l];
                    x[d * W + l] += moved;
                    drift[d * W + l] += moved * moved;
                }
            if (m == N - 1)
                break;
            for (idx d = 0; d < D; d++, B += columns * W) {
                LANES next[d * W + l] = B[(D + F) * W + l];
                for (idx i = 0; i < D; i++)
                    LANES next[d * W + l] += B[i * W + l] * now[i * W + l];
                for (idx f = 0; f < F; f++)
                    LANES next[d * W + l] += B[(D + f) * W + l] * delta[(Q + f) * W + l];
            }
            double *swap = now;
            now = next, next = swap;
        }
    }
    free(change);
    return 0;
}

/* The values of f (D, W) at the nodes of a tile, from a tape of values only: zero for rows without an equation. */
static void NAME(evaluate)(const Plan *plan, idx count, const double *t, const double *x, const double *inputs, double *R,
                           double *f)
{
    const idx D = plan->D, *row = indices(plan, P_VALUE_ROW);
    NAME(run_at)(plan, &plan->values, count, t, x, inputs, R);
    memset(f, 0, sizeof(double) * count * D * W);
    for (idx j = 0; j < count; j++)
        for (idx k = 0; k < plan->values.outputs; k++)
            LANES f[(j * D + row[k]) * W + l] = R[(idx)plan->values.output[k] * TILE + j * W + l];
}

/* Solve the equations over one step of `count` intervals by the classical Runge-Kutta rule, in `substeps` steps each.
 * x (count, D, W) is moved from the beginning to the end. `inputs` (count, 2 substeps + 1, I or I W) are at the ends and
 * the middles of the substeps. k1, k2, k3 and trial are scratch like x; gathered (count, I W) is scratch. */
static void NAME(solve_forward)(const Plan *plan, idx count, const double *begin, const double *h, const double *inputs,
                                double *x, double *const *scratch, double *gathered, double *R)
{
    const idx D = plan->D, width = plan->I * (plan->s[S_INPUTS_VARY] ? W : 1), steps = plan->s[S_SUBSTEPS];
    double *sum = scratch[0], *k = scratch[1], *trial = scratch[2], t[T];
    static const double share[] = {0.5, 0.5, 1.0}, weight[] = {1.0, 2.0, 2.0, 1.0};
    for (idx step = 0; step < steps; step++) {
        memcpy(trial, x, sizeof(double) * count * D * W);
        memset(sum, 0, sizeof(double) * count * D * W);
        for (int stage = 0; stage < 4; stage++) {
            const int half = (stage + 1) / 2; /* 0, 1, 1, 2 */
            for (idx j = 0; j < count; j++) {
                t[j] = begin[j] + h[j] * (step + 0.5 * half) / steps;
                if (width)
                    memcpy(gathered + j * width, inputs + (j * (2 * steps + 1) + 2 * step + half) * width,
                           sizeof(double) * width);
            }
            NAME(evaluate)(plan, count, t, trial, gathered, R, k);
            for (idx j = 0; j < count; j++) {
                const double dt = h[j] / steps;
                for (idx e = j * D * W; e < (j + 1) * D * W; e++) {
                    sum[e] += weight[stage] * k[e];
                    if (stage < 3)
                        trial[e] = x[e] + dt * share[stage] * k[e];
                }
            }
        }
        for (idx j = 0; j < count; j++)
            for (idx e = j * D * W; e < (j + 1) * D * W; e++)
                x[e] += h[j] / steps / 6.0 * sum[e];
    }
}

/* The error of the rule on each interval, written to P_DEFECT (groups, N - 1, D, W): the difference between the state
 * at the right end and the solution from the state at the left end, less the defect. */
API idx NAME(engine_truncation)(const idx *sizes, void *const *pointers, idx groups, const idx *which)
{
    const Plan plan = read_plan(sizes, pointers);
    NAME(Scratch) w;
    if (NAME(allocate)(&plan, &w))
        return 1;
    const idx D = plan.D, N = plan.nodes, I = plan.I, vary = plan.s[S_INPUTS_VARY], width = I * (vary ? W : 1);
    const idx points = 2 * plan.s[S_SUBSTEPS] + 1, *kind = indices(&plan, P_KIND);
    const double *times = doubles(&plan, P_TIMES);
    double *gathered = (double *)malloc(sizeof(double) * (T * width + 1));
    for (idx k = 0; gathered && k < groups; k++) {
        const idx group = which[k];
        const double *x = doubles(&plan, P_X) + group * N * D * W;
        const double *substeps = I ? doubles(&plan, P_INPUTS_SUBSTEP) + (vary ? group * (N - 1) * points * width : 0) : 0;
        NAME(begin_tape)(&plan, &plan.values, doubles(&plan, P_P) + group * plan.J * W, w.R);
        for (idx a = 0; a < N - 1; a += T) {
            const idx count = N - 1 - a < T ? N - 1 - a : T;
            double h[T], middle[T];
            double *f0 = w.state[4], *f1 = w.state[5], *fm = w.state[6], *xm = w.mid_x, *end = w.state[0];
            for (idx j = 0; j < count; j++)
                h[j] = times[a + j + 1] - times[a + j], middle[j] = times[a + j] + h[j] / 2;
            const double *x0 = x + a * D * W, *x1 = x0 + D * W;
            double *out = doubles(&plan, P_DEFECT) + (group * (N - 1) + a) * D * W;
            /* Inputs at the beginning, in the middle and at the end are among those of the substeps. */
            for (int part = 0; part < 3; part++) {
                for (idx j = 0; width && j < count; j++)
                    memcpy(gathered + j * width, substeps + ((a + j) * points + part * (points - 1) / 2) * width,
                           sizeof(double) * width);
                if (part == 0)
                    NAME(evaluate)(&plan, count, times + a, x0, gathered, w.R, f0);
                if (part == 2)
                    NAME(evaluate)(&plan, count, times + a + 1, x1, gathered, w.R, f1);
            }
            for (idx j = 0; j < count; j++)
                for (idx e = j * D * W; e < (j + 1) * D * W; e++)
                    xm[e] = 0.5 * (x0[e] + x1[e]) + h[j] / 8 * (f0[e] - f1[e]);
            for (idx j = 0; width && j < count; j++)
                memcpy(gathered + j * width, substeps + ((a + j) * points + (points - 1) / 2) * width,
                       sizeof(double) * width);
            NAME(evaluate)(&plan, count, middle, xm, gathered, w.R, fm);
            memcpy(end, x0, sizeof(double) * count * D * W);
            NAME(solve_forward)(&plan, count, times + a, h, substeps + a * points * width, end, w.state + 1, gathered, w.R);
            for (idx j = 0; j < count; j++)
                for (idx e = j * D * W; e < (j + 1) * D * W; e++) {
                    const double c = x1[e] - x0[e] - h[j] / 6 * (f0[e] + 4 * fm[e] + f1[e]);
                    out[e] = kind && kind[a + j] >= 0 ? 0.0 : x1[e] - end[e] - c;
                }
        }
    }
    const int failed = !gathered;
    free(gathered);
    free(w.memory);
    return failed;
}

/* Set the constants, and in each node of the tile the parameters of another group, and run the prologue. */
static void NAME(begin_block)(const Plan *plan, const Tape *tape, idx count, const idx *which, double *R)
{
    const idx first = 1 + plan->D + plan->I;
    memset(R, 0, sizeof(double) * tape->registers * TILE);
    for (idx k = 0; k < count; k++)
        for (idx j = 0; j < plan->J; j++)
            LANES R[(first + j) * TILE + k * W + l] = doubles(plan, P_P)[(which[k] * plan->J + j) * W + l];
    for (idx c = 0; c < tape->constants; c++)
        for (int e = 0; e < TILE; e++)
            R[(first + plan->J + c) * TILE + e] = tape->constant[c];
    run_tape(tape, 0, tape->prologue, R);
}

/* Solve the equations from the first node of each group: the states at the other nodes are written to P_X. The nodes
 * follow from each other, so that a tile holds the same node of several groups. */
API idx NAME(engine_march)(const idx *sizes, void *const *pointers, idx groups, const idx *which)
{
    const Plan plan = read_plan(sizes, pointers);
    NAME(Scratch) w;
    if (NAME(allocate)(&plan, &w))
        return 1;
    const idx D = plan.D, N = plan.nodes, I = plan.I, vary = plan.s[S_INPUTS_VARY], width = I * (vary ? W : 1);
    const idx points = 2 * plan.s[S_SUBSTEPS] + 1, *kind = indices(&plan, P_KIND);
    const double *times = doubles(&plan, P_TIMES);
    double *gathered = (double *)malloc(sizeof(double) * (T * width * (points + 1) + 1));
    for (idx first = 0; gathered && first < groups; first += T) {
        const idx count = groups - first < T ? groups - first : T;
        const idx *block = which + first;
        double begin[T], h[T], *x = w.state[0], *inputs = gathered + T * width;
        for (idx k = 0; k < count; k++)
            memcpy(x + k * D * W, doubles(&plan, P_X) + block[k] * N * D * W, sizeof(double) * D * W);
        NAME(begin_block)(&plan, &plan.values, count, block, w.R);
        for (idx m = 0; m < N - 1; m++) {
            if (kind && kind[m] >= 0) {
                const Tape tape = read_tape(sizes + S_TAPES + 18 + 6 * kind[m], pointers + P_TAPES + 9 + 3 * kind[m]);
                for (idx k = 0; k < count; k++) {
                    begin[k] = times[m];
                    if (width)
                        memcpy(inputs + k * width, doubles(&plan, P_INPUTS_AFTER) + ((vary ? block[k] * N : 0) + m) * width,
                               sizeof(double) * width);
                }
                NAME(begin_block)(&plan, &tape, count, block, w.jump);
                NAME(run_at)(&plan, &tape, count, begin, x, inputs, w.jump);
                for (idx k = 0; k < count; k++)
                    for (idx d = 0; d < D; d++)
                        LANES x[(k * D + d) * W + l] = w.jump[(idx)tape.output[d] * TILE + k * W + l];
            } else {
                for (idx k = 0; k < count; k++) {
                    begin[k] = times[m], h[k] = times[m + 1] - times[m];
                    if (width)
                        memcpy(inputs + k * points * width,
                               doubles(&plan, P_INPUTS_SUBSTEP) + ((vary ? block[k] * (N - 1) : 0) + m) * points * width,
                               sizeof(double) * points * width);
                }
                NAME(solve_forward)(&plan, count, begin, h, inputs, x, w.state + 1, gathered, w.R);
            }
            for (idx k = 0; k < count; k++)
                memcpy(doubles(&plan, P_X) + (block[k] * N + m + 1) * D * W, x + k * D * W, sizeof(double) * D * W);
        }
    }
    const int failed = !gathered;
    free(gathered);
    free(w.memory);
    return failed;
}

/* Evaluate the tape of f and its derivatives at all nodes: P_ROWS (groups, N, outputs, W). */
API idx NAME(engine_evaluate)(const idx *sizes, void *const *pointers, idx groups, const idx *which)
{
    const Plan plan = read_plan(sizes, pointers);
    NAME(Scratch) w;
    if (NAME(allocate)(&plan, &w))
        return 1;
    const idx D = plan.D, N = plan.nodes, I = plan.I, vary = plan.s[S_INPUTS_VARY], width = I * (vary ? W : 1);
    for (idx k = 0; k < groups; k++) {
        const idx group = which[k];
        const double *x = doubles(&plan, P_X) + group * N * D * W;
        const double *after = I ? doubles(&plan, P_INPUTS_AFTER) + (vary ? group * N * width : 0) : 0;
        NAME(begin_tape)(&plan, &plan.f, doubles(&plan, P_P) + group * plan.J * W, w.R);
        for (idx a = 0; a < N; a += T) {
            const idx count = N - a < T ? N - a : T;
            NAME(run_at)(&plan, &plan.f, count, doubles(&plan, P_TIMES) + a, x + a * D * W, after + a * width, w.R);
            NAME(read_outputs)(&plan.f, count, w.R, doubles(&plan, P_ROWS) + (group * N + a) * plan.f.outputs * W);
        }
    }
    free(w.memory);
    return 0;
}

/* Weak least squares: with the test functions of P_WINDOW (sparse: for each node, the windows that contain it and their
 * weights), the weak residuals are r = scale (left + sum of weight f), and their derivatives by the free parameters
 * follow from those of f. Sums J'J in P_H (groups, F, F, W; lower half), -J'r in P_G (groups, F, W), and r'r in P_SQUARES
 * (groups, W). The states are data and do not move. */
API idx NAME(engine_weak)(const idx *sizes, void *const *pointers, idx groups, const idx *which)
{
    const Plan plan = read_plan(sizes, pointers);
    NAME(Scratch) w;
    if (NAME(allocate)(&plan, &w))
        return 1;
    const idx D = plan.D, F = plan.F, N = plan.nodes, I = plan.I, windows = plan.s[S_WINDOWS], no = plan.f.outputs;
    const idx vary = plan.s[S_INPUTS_VARY], width = I * (vary ? W : 1);
    const idx nf = plan.s[S_VALUES], nA = plan.s[S_BY_STATE], nP = plan.s[S_BY_PARAMETER], columns = nf + nP;
    const idx *row = indices(&plan, P_VALUE_ROW), *place = indices(&plan, P_BY_PARAMETER);
    const idx *begin = indices(&plan, P_WINDOW_BEGIN), *window = indices(&plan, P_WINDOW);
    const double *weight = doubles(&plan, P_WINDOW_WEIGHT);
    double *sums = (double *)malloc(sizeof(double) * (windows * columns * W + (D * (F + 1) + 1) * W));
    double *J = sums ? sums + windows * columns * W : 0;
    for (idx k = 0; sums && k < groups; k++) {
        const idx group = which[k];
        const double *x = doubles(&plan, P_X) + group * N * D * W;
        const double *after = I ? doubles(&plan, P_INPUTS_AFTER) + (vary ? group * N * width : 0) : 0;
        const double *chain = doubles(&plan, P_CHAIN) + group * F * W;
        memset(sums, 0, sizeof(double) * windows * columns * W);
        NAME(begin_tape)(&plan, &plan.f, doubles(&plan, P_P) + group * plan.J * W, w.R);
        for (idx a = 0; a < N; a += T) {
            const idx count = N - a < T ? N - a : T;
            NAME(run_at)(&plan, &plan.f, count, doubles(&plan, P_TIMES) + a, x + a * D * W, after + a * width, w.R);
            for (idx j = 0; j < count; j++)
                for (idx b = begin[a + j]; b < begin[a + j + 1]; b++) {
                    const double q = weight[b];
                    double *to = sums + window[b] * columns * W;
                    for (idx o = 0; o < columns; o++) {
                        const double *value = w.R + (idx)plan.f.output[o < nf ? o : o + nA] * TILE + j * W;
                        LANES to[o * W + l] += q * value[l];
                    }
                }
        }
        double *H = doubles(&plan, P_H) + group * F * F * W, *g = doubles(&plan, P_G) + group * F * W;
        double *squares = doubles(&plan, P_SQUARES) + group * W;
        const double *left = doubles(&plan, P_LEFT) + group * windows * D * W;
        const double *scale = doubles(&plan, P_SCALE) + group * D * W;
        memset(H, 0, sizeof(double) * F * F * W);
        memset(g, 0, sizeof(double) * F * W);
        memset(squares, 0, sizeof(double) * W);
        double *r = J + D * F * W;
        for (idx m = 0; m < windows; m++, left += D * W) {
            const double *sum = sums + m * columns * W;
            memcpy(r, left, sizeof(double) * D * W);
            memset(J, 0, sizeof(double) * D * F * W);
            for (idx o = 0; o < nf; o++)
                LANES r[row[o] * W + l] += sum[o * W + l];
            for (idx o = 0; o < nP; o++)
                LANES J[place[o] * W + l] = sum[(nf + o) * W + l] * chain[(place[o] % F) * W + l];
            for (idx d = 0; d < D; d++) {
                const double *Jd = J + d * F * W;
                double s2[W];
                LANES s2[l] = scale[d * W + l] * scale[d * W + l];
                LANES squares[l] += s2[l] * r[d * W + l] * r[d * W + l];
                for (idx i = 0; i < F; i++) {
                    double a[W];
                    LANES a[l] = s2[l] * Jd[i * W + l];
                    LANES g[i * W + l] -= a[l] * r[d * W + l];
                    for (idx j = 0; j <= i; j++)
                        LANES H[(i * F + j) * W + l] += a[l] * Jd[j * W + l];
                }
            }
        }
    }
    const int failed = !sums;
    free(sums);
    free(w.memory);
    return failed;
}

#undef T
#undef LANES
