/* Samples of 16 bits, each times its weight. */
typedef struct {
    int32_t in, out, samples, weight_count, shift;
    const int16_t *weights;
} signal_window_t;

static void signal_window(const signal_window_t *k, const box_t *box)
{
    const int8_t *in = bytes_at(k->in);
    int8_t *out = bytes_at(k->out);
    int32_t weight = 0;
    int32_t i;
    (void)box; /* all of it */
    for (i = 0; i < k->samples; i++) {
        int32_t value = (half_at(&in[2 * i]) * (int32_t)k->weights[weight]) >> k->shift;
        set_half(&out[2 * i], most(INT16_MIN, least(INT16_MAX, value)));
        weight = ((weight + 1) < k->weight_count) ? (weight + 1) : 0;
    }
}
