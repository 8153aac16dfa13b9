/* Energies in channels that overlap: what a channel leaves of an energy goes to the next one. */
typedef struct {
    int32_t in, out, channels;
    const int16_t *weights;
    const int16_t *left_over;
    const int16_t *energy_starts;
    const int16_t *weight_starts;
    const int16_t *widths;
} signal_bank_t;

static void signal_bank(const signal_bank_t *k, const box_t *box)
{
    const int8_t *in = bytes_at(k->in);
    int8_t *out = bytes_at(k->out);
    uint64_t carried = 0U;
    int32_t i;
    int32_t j;
    (void)box; /* all of it */
    for (i = 0; i <= k->channels; i++) {
        uint64_t sum = carried;
        carried = 0U;
        for (j = 0; j < k->widths[i]; j++) {
            uint64_t energy = word_at(&in[4 * (k->energy_starts[i] + j)]);
            int32_t weight = k->weight_starts[i] + j;
            sum += (uint64_t)(int64_t)k->weights[weight] * energy;
            carried += (uint64_t)(int64_t)k->left_over[weight] * energy;
        }
        if (i > 0) { /* what is below the first channel is of none */
            set_word(&out[8 * (i - 1)], (uint32_t)(sum & 0xFFFFFFFFU));
            set_word(&out[(8 * (i - 1)) + 4], (uint32_t)(sum >> 32));
        }
    }
}
