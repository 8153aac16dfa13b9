/* Natural logarithms of channels, times a scale, at most what 16 bits hold. */
typedef struct {
    int32_t in, out, channels, shift;
    uint32_t scale;
    const uint16_t *curve; /* of log2(1 + x) - x for 128 parts of x, 16 bits right of the point */
} signal_log_t;

static uint32_t log_of(const signal_log_t *k, uint32_t value)
{
    uint32_t whole = bits_of(value) - 1U;
    uint32_t above = value - ((uint32_t)1 << whole);
    int32_t part = (int32_t)((whole < 16U) ? (above << (16U - whole)) : (above >> (whole - 16U)));
    int32_t place = part >> 9;
    int32_t low = (int32_t)k->curve[place];
    int32_t rest = (((int32_t)k->curve[place + 1] - low) * (part - (place * 512))) >> 16;
    uint64_t log2 = (uint64_t)(whole << 16) + (uint64_t)(uint32_t)(part + low + rest);
    uint32_t natural = (uint32_t)((((uint64_t)45426U * log2) + 32768U) >> 16); /* 45426: ln 2 */
    return ((k->scale * natural) + 32768U) >> 16;
}

static void signal_log(const signal_log_t *k, const box_t *box)
{
    const int8_t *in = bytes_at(k->in);
    int8_t *out = bytes_at(k->out);
    int32_t i;
    (void)box; /* all of it */
    for (i = 0; i < k->channels; i++) {
        uint32_t value = word_at(&in[4 * i]) << k->shift;
        uint32_t result = (value > 1U) ? log_of(k, value) : 0U;
        set_half(&out[2 * i], (result < 32767U) ? (int32_t)result : 32767);
    }
}
