static void take(int32_t to, const int8_t *from, int32_t bytes)
{
    (void)memcpy(bytes_at(to), from, (size_t)bytes);
}

static void give(int8_t *to, int32_t from, int32_t bytes)
{
    (void)memcpy(to, bytes_at(from), (size_t)bytes);
}

