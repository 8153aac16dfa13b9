/* One of the tensors whose channels are concatenated: its bytes go to each pixel of the result, from `begin` on. */
typedef struct {
    place_t in, out;
    int32_t pixels, channels, begin, out_channels;
    int32_t last; /* whether no other tensor follows */
} channels_t;

static void join(const channels_t *k, int32_t y, int32_t rows)
{
    const int8_t *from = row_at(&k->in, y);
    int8_t *to = row_at(&k->out, y) + k->begin;
    int32_t i;
    for (i = 0; i < (rows * k->pixels); i++) {
        (void)memcpy(to, from, (size_t)k->channels);
        from += k->channels;
        to += k->out_channels;
    }
}

static void nn_concat(const channels_t *k, int32_t y, int32_t rows)
{
    while (k->last == 0) {
        join(k, y, rows);
        k++;
    }
    join(k, y, rows);
}

