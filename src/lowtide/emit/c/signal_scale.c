/* Samples shifted to the left as far as the largest allows, and by how much. */
typedef struct {
    int32_t in, out, shift_out, samples;
} signal_scale_t;

static void signal_scale(const signal_scale_t *k, const box_t *box)
{
    const int8_t *in = bytes_at(k->in);
    int8_t *out = bytes_at(k->out);
    int32_t largest = 0;
    int32_t shift;
    int32_t i;
    (void)box; /* all of it */
    for (i = 0; i < k->samples; i++) {
        int32_t value = half_at(&in[2 * i]);
        if (value > largest) {
            largest = value;
        } else if (-value > largest) {
            largest = (value == INT16_MIN) ? INT16_MIN : -value; /* of 16 bits too, as in TFLite Micro */
        }
    }
    shift = most(0, 15 - (int32_t)bits_of((uint32_t)largest));
    for (i = 0; i < k->samples; i++) {
        int32_t value = half_at(&in[2 * i]);
        set_half(&out[2 * i], value * ((int32_t)1 << shift));
    }
    set_word(bytes_at(k->shift_out), (uint32_t)shift);
}
