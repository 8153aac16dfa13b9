/* Times 2^shift * multiplier / 2^31, with both roundings of TFLite, or with one as its builds with
   TFLITE_SINGLE_ROUNDING do. */
INLINED int32_t scaled(int32_t value, int32_t multiplier, int32_t shift)
{
#if MODEL_SINGLE_ROUNDING
    int32_t right = 31 - shift;
    return (int32_t)((((int64_t)value * (int64_t)multiplier) + ((int64_t)1 << (right - 1))) >> right);
#else
    int32_t left = (shift > 0) ? shift : 0;
    int32_t right = (shift > 0) ? 0 : -shift;
    int64_t product = (int64_t)(int32_t)((uint32_t)value << left) * (int64_t)multiplier;
    return halved((int32_t)((product + ((int64_t)1 << 30)) >> 31), right);
#endif
}
