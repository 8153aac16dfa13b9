static void give(int8_t *to, int32_t from, int32_t bytes)
{
    const int8_t *kept = bytes_at(from);
    int32_t i;
    for (i = 0; i < bytes; i++) {
        to[i] = kept[i];
    }
}
