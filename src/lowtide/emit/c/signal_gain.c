/* Channels times a gain that depends on their noise, a curve of parabolas between powers of two; then 6 bits right of
   the point: x^2 / 4 below 2, and x - 1 from there on. */
typedef struct {
    int32_t in, noise_in, out, channels, shift;
    const int16_t *curve;
} signal_gain_t;

static uint32_t gain_of(const int16_t *curve, uint32_t noise)
{
    uint32_t bits = bits_of(noise);
    const int16_t *part;
    int32_t along;
    int32_t value;
    if (noise <= 2U) {
        return (uint32_t)(int32_t)curve[noise];
    }
    part = &curve[(4U * bits) - 6U];
    along = (int32_t)(((bits < 11U) ? (noise << (11U - bits)) : (noise >> (bits - 11U))) & 0x3FFU);
    value = (((int32_t)part[2] * along) >> 5) + ((int32_t)part[1] * 32);
    value = (int32_t)((uint32_t)value * (uint32_t)along);
    value = (int32_t)((uint32_t)value + 16384U) >> 15;
    return (uint32_t)(int32_t)(int16_t)(uint16_t)((uint32_t)(value + (int32_t)part[0]) & 0xFFFFU);
}

static void signal_gain(const signal_gain_t *k, const box_t *box)
{
    const int8_t *in = bytes_at(k->in);
    const int8_t *noise_in = bytes_at(k->noise_in);
    int8_t *out = bytes_at(k->out);
    int32_t i;
    (void)box; /* all of it */
    for (i = 0; i < k->channels; i++) {
        uint64_t gain = gain_of(k->curve, word_at(&noise_in[4 * i]));
        uint32_t value = (uint32_t)((((uint64_t)word_at(&in[4 * i]) * gain) >> k->shift) & 0xFFFFFFFFU);
        value = (value < 8192U) ? ((value * value) >> 20) : ((value >> 6) - 64U);
        set_word(&out[4 * i], value);
    }
}
