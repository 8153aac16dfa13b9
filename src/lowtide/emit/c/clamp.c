/* What a fused activation lets through of a number with a point; what is no number stays. */
static float bounded(float value, float low, float high)
{
    float raised = (value < low) ? low : value;
    return (high < raised) ? high : raised;
}
