int model_wants(void)
{
    return (run_on() == 0) ? -1 : (int)wanted()->input;
}

int model_feed(const int8_t *part)
{
    if (run_on() != 0) {
        feed(part);
    }
    return model_wants();
}

/* The same for inputs that are there whole, each in its place among all inputs. */
static void feed_whole(const int8_t *const *whole)
{
    while (run_on() != 0) {
        int32_t done = counters.done[counters.waiting[counters.depth - 1]];
        feed(&whole[wanted()->input][done * wanted()->bytes]);
    }
}
