static const int16_t *wide_in(const void *bytes)
{
    return (const int16_t *)bytes;
}

static int16_t *wide_out(void *bytes)
{
    return (int16_t *)bytes;
}

