static void take(int32_t to, const int8_t *from, int32_t bytes)
{
    int32_t i;
    for (i = 0; i < bytes; i++) {
        arena[to + i] = from[i];
    }
}
