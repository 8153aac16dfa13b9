"""A program whose parameters are donated, with fusions that write over what they read."""

DONATED = "input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, must-alias) }"
IN_PLACE = (
    f"HloModule donated, is_scheduled=true, {DONATED}"
    + """

%elementwise (p: f32[8,8], q: f32[8,8]) -> f32[8,8] {
  %p = f32[8,8]{1,0} parameter(0)
  %q = f32[8,8]{1,0} parameter(1)
  %r = f32[8,8]{1,0} transpose(%q), dimensions={1,0}
  ROOT %s = f32[8,8]{1,0} add(%p, %r)
}

%update (p.1: f32[8,8], row: f32[1,8], at: s32[]) -> f32[8,8] {
  %p.1 = f32[8,8]{1,0} parameter(0)
  %row = f32[1,8]{1,0} parameter(1)
  %at = s32[] parameter(2)
  ROOT %u = f32[8,8]{1,0} dynamic-update-slice(%p.1, %row, %at, %at)
}

ENTRY %main (a: f32[8,8], b: f32[8,8]) -> (f32[8,8], f32[8,8]) {
  %a = f32[8,8]{1,0} parameter(0)
  %b = f32[8,8]{1,0} parameter(1)
  %at.1 = s32[] constant(0)
  %flat = f32[64]{0} bitcast(%a)
  %sum = f32[1,8]{1,0} custom-call(%flat)
  %mixed = f32[8,8]{1,0} fusion(%a, %b), kind=kLoop, calls=%elementwise
  %moved = f32[8,8]{0,1} copy(%mixed)
  %turned = f32[8,8]{1,0} exponential(%moved)
  %one = f32[8,8]{1,0} negate(%turned)
  %two = f32[8,8]{1,0} fusion(%b, %sum, %at.1), kind=kLoop, calls=%update
  ROOT %both = (f32[8,8]{1,0}, f32[8,8]{1,0}) tuple(%one, %two)
}
"""
)
