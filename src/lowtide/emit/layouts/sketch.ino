/* Runs the model once a second, and prints how long that takes.
   Made by lowtide; make it again when the model changes. */
#include <@NAME@.h>

alignas(16) static int8_t input[@UPPER@_INPUT_BYTES]; /* of all inputs: (real number / scale) + zero point */
alignas(16) static int8_t output[@UPPER@_OUTPUT_BYTES];

void setup()
{
    Serial.begin(115200);
}

void loop()
{
    const unsigned long began = micros();
    (void)@NAME@_run(@CALL@);
    Serial.print(micros() - began);
    Serial.print(" us, first byte of the result ");
    Serial.println(output[0]);
    delay(1000);
}
