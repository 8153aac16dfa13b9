/* A recurrent layer of numbers with a point: gates of the input and of the last results, in the order of TFLM. */
typedef struct {
    const float *input_weights;
    const float *result_weights;
    const float *bias;
} real_gate_t;

typedef struct {
    view_t in, out;
    real_gate_t forget, input, cell, output;
    int32_t inputs, units;
    float clip;    /* of cells; 0: none */
    int32_t state; /* where last results, cells and new results begin, one behind the other */
} real_lstm_t;

static float real_lstm_gate(const real_lstm_t *k, const real_gate_t *gate, const int8_t *in, int32_t unit)
{
    const int8_t *results = &kept_results[k->state];
    float first = 0.0f;
    float second = 0.0f;
    int32_t i;
    for (i = 0; i < k->inputs; i++) {
        first += real_at(&in[i * k->in.c]) * gate->input_weights[(unit * k->inputs) + i];
    }
    for (i = 0; i < k->units; i++) {
        second += real_at(&results[4 * i]) * gate->result_weights[(unit * k->units) + i];
    }
    return (first + gate->bias[unit]) + second;
}

static void real_lstm_step(const real_lstm_t *k, const int8_t *in, int8_t *out)
{
    int8_t *results = &kept_results[k->state];
    int8_t *cells = &results[4 * k->units];
    int8_t *made = &cells[4 * k->units];
    int32_t unit;
    for (unit = 0; unit < k->units; unit++) {
        float kept = logistic_real(real_lstm_gate(k, &k->forget, in, unit)) * real_at(&cells[4 * unit]);
        float input = logistic_real(real_lstm_gate(k, &k->input, in, unit));
        float cell = kept + (input * tanhf(real_lstm_gate(k, &k->cell, in, unit)));
        if (k->clip > 0.0f) {
            cell = bounded(cell, -k->clip, k->clip);
        }
        set_real(&cells[4 * unit], cell);
        set_real(&made[4 * unit], tanhf(cell) * logistic_real(real_lstm_gate(k, &k->output, in, unit)));
    }
    for (unit = 0; unit < k->units; unit++) {
        float result = real_at(&made[4 * unit]);
        set_real(&results[4 * unit], result);
        set_real(&out[unit * k->out.c], result);
    }
}

static void real_lstm(const real_lstm_t *k, const box_t *box)
{
    int32_t y;
    int32_t x;
    for (y = box->y0; y < box->y1; y++) {
        for (x = box->x0; x < box->x1; x++) {
            real_lstm_step(k, at(&k->in, y, x, 0), at(&k->out, y, x, 0));
        }
    }
}
