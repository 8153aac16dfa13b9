/* Squares of the size of complex numbers of 16 bits, of some of them. */
typedef struct {
    int32_t in, out, begin, end;
} signal_energy_t;

static void signal_energy(const signal_energy_t *k, const box_t *box)
{
    int32_t i;
    (void)box; /* all of it */
    for (i = k->begin; i < k->end; i++) {
        int32_t re = half_at(bytes_at(k->in + (4 * i)));
        int32_t im = half_at(bytes_at(k->in + (4 * i) + 2));
        set_word(bytes_at(k->out + (4 * i)), (uint32_t)(re * re) + (uint32_t)(im * im));
    }
}
