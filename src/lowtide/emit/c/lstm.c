/* A gate: products with an input's row and with the last results, each rounded to 16 bits. */
typedef struct {
    const int8_t *weights;
    const int8_t *back;
    const int32_t *bias;
    int32_t multiplier, shift, back_multiplier, back_shift;
} gate_t;

/* Long short-term memory over rows in their order: four gates, a cell of 16 bits for each unit, results that come back. */
typedef struct {
    view_t in, out;
    gate_t forget, input, cell, output;
    int32_t inputs, units, in_zero, zero;
    int32_t forget_multiplier, forget_shift, input_multiplier, input_shift, out_multiplier, out_shift;
    int32_t tanh_multiplier, tanh_shift;
    int32_t cell_low, cell_high;
    int32_t state; /* where the last results begin, less their zero point; cells lie behind them */
    const uint16_t *curve;
} lstm_t;

static int32_t lstm_gate(const lstm_t *k, const gate_t *gate, const int8_t *in, int32_t unit)
{
    const int8_t *back = &gate->back[unit * k->units];
    const int8_t *results = &kept_results[k->state];
    int32_t above = k->zero + 128; /* of the last results' differences from their zero point 8 bits are kept */
    int32_t sum = gate->bias[unit] + dot(in, &gate->weights[unit * k->inputs], k->inputs, k->in_zero);
    int32_t again = 0;
    int32_t i;
    for (i = 0; i < k->units; i++) {
        again += ((((int32_t)results[i] + above) & 0xFF) - above) * (int32_t)back[i];
    }
    sum = most(INT16_MIN, least(INT16_MAX, scaled(sum, gate->multiplier, gate->shift)));
    again = most(INT16_MIN, least(INT16_MAX, scaled(again, gate->back_multiplier, gate->back_shift)));
    return most(INT16_MIN, least(INT16_MAX, sum + again));
}

/* The cell of a unit after a row. */
static int32_t lstm_cell(const lstm_t *k, const int8_t *in, int32_t unit, int32_t before)
{
    int32_t forget = logistic_of(k->curve, lstm_gate(k, &k->forget, in, unit), 3, 0);
    int32_t input = logistic_of(k->curve, lstm_gate(k, &k->input, in, unit), 3, 0);
    int32_t cell = tanh_of(k->curve, lstm_gate(k, &k->cell, in, unit), 3, 0);
    int32_t kept = scaled(forget * before, k->forget_multiplier, k->forget_shift);
    int32_t added = scaled(input * cell, k->input_multiplier, k->input_shift);
    kept = most(INT16_MIN, least(INT16_MAX, kept)) + most(INT16_MIN, least(INT16_MAX, added));
    return most(k->cell_low, least(k->cell_high, kept));
}

static void lstm_row(const lstm_t *k, const int8_t *in, int8_t *out)
{
    int8_t *cells = &kept_results[k->state + k->units];
    int32_t unit;
    for (unit = 0; unit < k->units; unit++) {
        int32_t cell = lstm_cell(k, in, unit, half_at(&cells[2 * unit]));
        int32_t output = logistic_of(k->curve, lstm_gate(k, &k->output, in, unit), 3, 0);
        int32_t result = tanh_of(k->curve, cell, k->tanh_multiplier, k->tanh_shift);
        set_half(&cells[2 * unit], cell);
        result = scaled(result * output, k->out_multiplier, k->out_shift) + k->zero;
        out[unit * k->out.c] = clamped(result, INT8_MIN, INT8_MAX);
    }
    for (unit = 0; unit < k->units; unit++) {
        kept_results[k->state + unit] = (int8_t)(uint8_t)((uint32_t)((int32_t)out[unit * k->out.c] - k->zero) & 0xFFU);
    }
}

static void lstm(const lstm_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            lstm_row(k, at(&k->in, y, x, 0), at(&k->out, y, x, 0));
        }
    }
}
