static void take(int32_t to, const int8_t *from, int32_t bytes)
{
    int8_t *kept = bytes_at(to);
    int32_t i;
    for (i = 0; i < bytes; i++) {
        kept[i] = from[i];
    }
}
