/* Bytes at another place, which may overlap. */
typedef struct {
    int32_t from, to, bytes;
} copy_t;

INLINED void copy(const copy_t *k, const box_t *box)
{
    const int8_t *from = bytes_at(k->from);
    int8_t *to = bytes_at(k->to);
    int32_t i;
    (void)box; /* all of it */
    if (((k->to + k->bytes) <= k->from) || ((k->from + k->bytes) <= k->to)) {
        (void)memcpy(to, from, (size_t)k->bytes);
    } else {
        for (i = 0; i < k->bytes; i++) {
            int32_t j = (k->to < k->from) ? i : (k->bytes - 1 - i);
            to[j] = from[j];
        }
    }
}
