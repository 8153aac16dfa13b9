/* What is above an estimate of the noise in each channel; the estimate follows the signal from run to run. */
typedef struct {
    int32_t in, out, noise_out, channels, state, bits, smoothing_bits, clamps;
    uint32_t follows[2], stays[2]; /* of even channels, of odd ones */
    uint32_t least_left;
} signal_noise_t;

static void signal_noise(const signal_noise_t *k, const box_t *box)
{
    const int8_t *in = bytes_at(k->in);
    int8_t *out = bytes_at(k->out);
    int8_t *noise_out = bytes_at(k->noise_out);
    int32_t i;
    (void)box; /* all of it */
    for (i = 0; i < k->channels; i++) {
        int8_t *kept = &kept_results[k->state + (4 * i)];
        uint32_t value = word_at(&in[4 * i]);
        uint32_t above = value << k->smoothing_bits;
        uint64_t both = ((uint64_t)above * k->follows[i % 2]) + ((uint64_t)word_at(kept) * k->stays[i % 2]);
        uint32_t noise = (uint32_t)((both >> k->bits) & 0xFFFFFFFFU);
        uint32_t taken = (noise > above) ? above : noise;
        uint32_t floor_of = (uint32_t)((((uint64_t)value * k->least_left) >> k->bits) & 0xFFFFFFFFU);
        uint32_t left = (above - taken) >> k->smoothing_bits;
        noise = (k->clamps != 0) ? taken : noise;
        set_word(kept, noise);
        set_word(&noise_out[4 * i], noise);
        set_word(&out[4 * i], (left > floor_of) ? left : floor_of);
    }
}
