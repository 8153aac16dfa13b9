/* Squares of the size of complex numbers of 16 bits, of some of them. */
typedef struct {
    int32_t in, out, begin, end;
} signal_energy_t;

static void signal_energy(const signal_energy_t *k, const box_t *box)
{
    const int8_t *in = bytes_at(k->in);
    int8_t *out = bytes_at(k->out);
    int32_t i;
    (void)box; /* all of it */
    for (i = k->begin; i < k->end; i++) {
        int32_t re = half_at(&in[4 * i]);
        int32_t im = half_at(&in[(4 * i) + 2]);
        set_word(&out[4 * i], (uint32_t)(re * re) + (uint32_t)(im * im));
    }
}
