/* Roots of numbers of 64 bits, rounded, shifted to the right by a number of the arena. */
typedef struct {
    int32_t in, shift_in, out, channels;
} signal_root_t;

static uint32_t root_of(uint64_t value)
{
    uint64_t limit = ((value >> 32) == 0U) ? 0xFFFFU : 0xFFFFFFFFU;
    uint64_t bit = (uint64_t)1 << 62;
    uint64_t root = 0U;
    while (bit > value) {
        bit >>= 2;
    }
    while (bit != 0U) {
        if (value >= (root + bit)) {
            value -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
        bit >>= 2;
    }
    return (uint32_t)(((value > root) && (root != limit)) ? (root + 1U) : root);
}

static void signal_root(const signal_root_t *k, const box_t *box)
{
    const int8_t *in = bytes_at(k->in);
    int8_t *out = bytes_at(k->out);
    uint32_t shift = word_at(bytes_at(k->shift_in));
    int32_t i;
    (void)box; /* all of it */
    for (i = 0; i < k->channels; i++) {
        const int8_t *from = &in[8 * i];
        uint64_t value = (uint64_t)word_at(from) | ((uint64_t)word_at(&from[4]) << 32);
        set_word(&out[4 * i], root_of(value) >> shift);
    }
}
