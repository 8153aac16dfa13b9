/* 1 / (1 + exp(-value)), as TFLM works it out. */
static float logistic_real(float value)
{
    if (value > 16.619047164916992188f) {
        return 1.0f;
    }
    return (value < -9.0f) ? expf(value) : (1.0f / (1.0f + expf(-value)));
}
