/* A gate: products with an input's row and with the last results, each rounded to 16 bits. The biases are less the zero
   points times the weights. */
typedef struct {
    const int8_t *weights;
    const int8_t *back;
    const int32_t *bias;
    const int32_t *back_bias;
    int32_t multiplier, shift, back_multiplier, back_shift;
} gate_t;

/* Long short-term memory over rows in their order: four gates, a cell of 16 bits for each unit, results that come back. */
typedef struct {
    view_t in, out;
    gate_t gates[4]; /* which forgets, input, cell, output */
    int32_t inputs, units, zero;
    int32_t small; /* 1: sums are below 2^30, and each is shifted to the right */
    int32_t forget_multiplier, forget_shift, input_multiplier, input_shift, out_multiplier, out_shift;
    int32_t tanh_multiplier, tanh_shift;
    int32_t cell_low, cell_high;
    int32_t state; /* where the last results begin, less their zero point; cells lie behind them */
    const uint16_t *curve;
} lstm_t;

INLINED int32_t lstm_scaled(const lstm_t *k, int32_t value, int32_t multiplier, int32_t shift)
{
    int32_t result = (k->small != 0) ? scaled_down(value, multiplier, -shift) : scaled(value, multiplier, shift);
    return most(INT16_MIN, least(INT16_MAX, result));
}

/* Sums of products with the weights of up to four units. */
INLINED void lstm_products(const int8_t *in, const int8_t *weights, int32_t length, int32_t count, int32_t *sums)
{
    int32_t j;
    if (count == 4) {
        set_sums(sums, four_products(in, weights, length, length));
    } else {
        for (j = 0; j < count; j++) {
            sums[j] = products_of(in, &weights[j * length], length);
        }
    }
}

/* What goes into a gate's curve, of up to four units. */
INLINED void lstm_gate(const lstm_t *k, const gate_t *gate, const int8_t *in, int32_t unit, int32_t count, int32_t *to)
{
    int32_t again[4];
    int32_t j;
    lstm_products(in, &gate->weights[unit * k->inputs], k->inputs, count, to);
    lstm_products(&kept_results[k->state], &gate->back[unit * k->units], k->units, count, again);
    for (j = 0; j < count; j++) {
        int32_t sum = (int32_t)((uint32_t)to[j] + (uint32_t)gate->bias[unit + j]);
        int32_t back = (int32_t)((uint32_t)again[j] + (uint32_t)gate->back_bias[unit + j]);
        sum = lstm_scaled(k, sum, gate->multiplier, gate->shift);
        back = lstm_scaled(k, back, gate->back_multiplier, gate->back_shift);
        to[j] = most(INT16_MIN, least(INT16_MAX, sum + back));
    }
}

/* Up to four units: their cells after a row, and their results. */
INLINED void lstm_units(const lstm_t *k, const int8_t *in, int8_t *out, int32_t unit, int32_t count)
{
    int8_t *cells = &kept_results[k->state + k->units + (2 * unit)];
    int32_t gates[4][4];
    int32_t g;
    int32_t j;
    for (g = 0; g < 4; g++) {
        lstm_gate(k, &k->gates[g], in, unit, count, gates[g]);
    }
    for (j = 0; j < count; j++) {
        int32_t kept = logistic_of(k->curve, gates[0][j], 3, 0) * half_at(&cells[2 * j]);
        int32_t added = logistic_of(k->curve, gates[1][j], 3, 0) * tanh_of(k->curve, gates[2][j], 3, 0);
        int32_t result;
        kept = lstm_scaled(k, kept, k->forget_multiplier, k->forget_shift);
        kept += lstm_scaled(k, added, k->input_multiplier, k->input_shift);
        kept = most(k->cell_low, least(k->cell_high, kept));
        set_half(&cells[2 * j], kept);
        result = logistic_of(k->curve, gates[3][j], 3, 0);
        result *= tanh_of(k->curve, kept, k->tanh_multiplier, k->tanh_shift);
        result = lstm_scaled(k, result, k->out_multiplier, k->out_shift) + k->zero;
        out[(unit + j) * k->out.c] = clamped(result, INT8_MIN, INT8_MAX);
    }
}

INLINED void lstm_row(const lstm_t *k, const int8_t *in, int8_t *out)
{
    int8_t *results = &kept_results[k->state];
    int32_t rest = k->units % 4;
    int32_t unit;
    for (unit = 0; unit < k->units; unit++) {
        set_byte(&results[unit], (int32_t)results[unit] + k->zero);
    }
    for (unit = 0; unit < (k->units - 3); unit += 4) {
        lstm_units(k, in, out, unit, 4);
    }
    if (rest != 0) {
        lstm_units(k, in, out, k->units - rest, rest);
    }
    for (unit = 0; unit < k->units; unit++) {
        set_byte(&results[unit], (int32_t)out[unit * k->out.c] - k->zero);
    }
}

INLINED void lstm(const lstm_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            lstm_row(k, at(&k->in, y, x, 0), at(&k->out, y, x, 0));
        }
    }
}
