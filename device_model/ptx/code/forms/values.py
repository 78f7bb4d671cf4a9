"""The forms of arithmetic, comparisons, conversions and moves, in the notation of `form`."""

TABLE = """
add sub        : INT                                                : t t t
add            : u16x2|s16x2                                        : t t t
add sub        : [sat] s32                                          : t t t
add sub        : cc u32|s32|u64|s64                                 : t t t
addc subc      : cc? u32|s32|u64|s64                                : t t t
add sub mul    : [RND? ftz? sat?] f32                               : t t t
add sub mul    : RND? f64                                           : t t t
add sub mul    : [rn? ftz? sat?] f16|f16x2                          : t t t
add sub mul    : rn? bf16|bf16x2                                    : t t t
- add sub mul  : [RND? ftz?] f32x2                                  : * * *
- add sub      : [RND? sat?] f32 f16|bf16                           : * * *
mul            : hi|lo INT                                          : t t t
mul            : wide u16|u32|s16|s32                               : w t t
mad            : hi|lo INT                                          : t t t t
mad            : wide u16|u32|s16|s32                               : w t t w
mad            : hi [sat] s32                                       : t t t t
mad            : hi|lo cc u32|s32|u64|s64                           : t t t t
madc           : hi|lo cc? u32|s32|u64|s64                          : t t t t
fma mad        : [RND ftz? sat?] f32                                : t t t t
fma mad        : RND f64                                            : t t t t
fma            : [rn ftz? sat|relu?] f16|f16x2                      : t t t t
fma            : [rn relu?] bf16|bf16x2                             : t t t t
- fma          : [rn oob relu?] HALF                                : * * * *
- fma          : [RND ftz?] f32x2                                   : * * * *
- fma          : [RND sat?] f32 f16|bf16                            : * * * *
mul24          : hi|lo u32|s32                                      : t t t
mad24          : hi|lo u32|s32                                      : t t t t
mad24          : hi [sat] s32                                       : t t t t
div            : INT                                                : t t t
div            : [approx|full|RND ftz?] f32                         : t t t
div            : RND f64                                            : t t t
rem            : INT                                                : t t t
sad            : INT                                                : t t t t
abs neg        : s16|s32|s64                                        : t t
abs neg        : ftz? f32                                           : t t
abs neg        : f64                                                : t t
abs neg        : ftz? f16|f16x2                                     : t t
abs neg        : bf16|bf16x2                                        : t t
min max        : INT|u16x2|s16x2                                    : t t t
min max        : [relu] s16x2|s32                                   : t t t
min max        : [ftz? NaN? xorsign.abs?] f32                       : t t t
min max        : [ftz? NaN? abs?] f32                               : t t t t
min max        : f64                                                : t t t
min max        : [ftz? NaN? xorsign.abs?] f16|f16x2                 : t t t
min max        : [NaN? xorsign.abs?] bf16|bf16x2                    : t t t
and or xor     : pred|b16|b32|b64                                   : t t t
not            : pred|b16|b32|b64                                   : t t
cnot           : b16|b32|b64                                        : t t
brev           : b32|b64                                            : t t
clz popc       : b32|b64                                            : u32 t
bfind          : shiftamt? u32|u64|s32|s64                          : u32 t
fns            : b32                                                : b32 b32 b32 s32
shl            : b16|b32|b64                                        : t t u32
shr            : b16|b32|b64|INT                                    : t t u32
shf            : l|r [clamp|wrap] b32                               : t t t u32
bfe            : u32|u64|s32|s64                                    : t t u32 u32
bfi            : b32|b64                                            : t t t u32 u32
prmt           : [b32 f4e|b4e|rc8|ecl|ecr|rc16?]                    : b32 b32 b32 b32
lop3           : b32                                                : t t t t num
lop3           : and|or b32                                         : t&pred t t t num pred
bmsk           : [clamp|wrap] b32                                   : t u32 u32
szext          : [clamp|wrap] u32|s32                               : t t u32
dp4a           : u32|s32 u32|s32                                    : b32 b32 b32 b32
dp2a           : lo|hi u32|s32 u32|s32                              : b32 b32 b32 b32
vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 : u32|s32 u32|s32 u32|s32 sat|add? : b32 b32 b32 b32
vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 : u32|s32 u32|s32 u32|s32 sat|add? : b32 b32 b32 b32
vset2 vset4    : u32|s32 u32|s32 CMP add?                           : b32 b32 b32 b32
selp           : b16|b32|b64|INT|f32|f64                            : t t t pred
slct           : b16|b32|b64|INT|f32|f64 s32                        : s s s t
slct           : ftz? b16|b32|b64|INT|f32|f64 f32                   : s s s t
testp          : finite|infinite|number|notanumber|normal|subnormal f32|f64 : pred t
copysign       : f32|f64                                            : t t t
sqrt rcp       : [approx|RND ftz?] f32                              : t t
sqrt rcp       : RND f64                                            : t t
rcp            : approx ftz f64                                     : t t
rsqrt          : [approx ftz?] f32                                  : t t
rsqrt          : [approx ftz?] f64                                  : t t
sin cos lg2    : [approx ftz?] f32                                  : t t
ex2            : [approx ftz?] f32                                  : t t
ex2            : approx f16|f16x2                                   : t t
ex2            : [approx ftz] bf16|bf16x2                           : t t
tanh           : approx f32|HALF                                    : t t
setp           : eq|ne b16|b32|b64                                  : pred/pred t t
setp           : [eq|ne LOG] b16|b32|b64                            : pred/pred t t pred
setp           : UCMP u16|u32|u64                                   : pred/pred t t
setp           : [UCMP LOG] u16|u32|u64                             : pred/pred t t pred
setp           : CMP s16|s32|s64                                    : pred/pred t t
setp           : [CMP LOG] s16|s32|s64                              : pred/pred t t pred
setp           : [FCMP ftz?] f32|f16x2                              : pred/pred t t
setp           : [FCMP LOG ftz?] f32|f16x2                          : pred/pred t t pred
setp           : [FCMP ftz?] f16                                    : pred t t
setp           : [FCMP LOG ftz?] f16                                : pred t t pred
setp           : FCMP f64|bf16x2                                    : pred/pred t t
setp           : [FCMP LOG] f64|bf16x2                              : pred/pred t t pred
setp           : FCMP bf16                                          : pred t t
setp           : [FCMP LOG] bf16                                    : pred t t pred
set            : eq|ne u32|s32|f32 b16|b32|b64                      : s t t
set            : [eq|ne LOG] u32|s32|f32 b16|b32|b64                : s t t pred
set            : UCMP u32|s32|f32|f16|bf16 u16|u32|u64              : s t t
set            : [UCMP LOG] u32|s32|f32|f16|bf16 u16|u32|u64        : s t t pred
set            : CMP u32|s32|f32|f16|bf16 s16|s32|s64               : s t t
set            : [CMP LOG] u32|s32|f32|f16|bf16 s16|s32|s64         : s t t pred
set            : eq|ne f16|bf16 b16|b32|b64                         : s t t
set            : [eq|ne LOG] f16|bf16 b16|b32|b64                   : s t t pred
set            : [FCMP ftz?] u32|s32|f32|f16|bf16 f32               : s t t
set            : [FCMP LOG ftz?] u32|s32|f32|f16|bf16 f32           : s t t pred
set            : [FCMP ftz?] u16|s16|u32|s32|f16 f16                : s t t
set            : [FCMP LOG ftz?] u16|s16|u32|s32|f16 f16            : s t t pred
set            : FCMP u32|s32|f32|f16|bf16 f64                      : s t t
set            : [FCMP LOG] u32|s32|f32|f16|bf16 f64                : s t t pred
set            : FCMP u16|s16|u32|s32|bf16 bf16                     : s t t
set            : [FCMP LOG] u16|s16|u32|s32|bf16 bf16               : s t t pred
set            : [FCMP ftz?] f16x2|u32|s32 f16x2                    : s t t
set            : [FCMP LOG ftz?] f16x2|u32|s32 f16x2                : s t t pred
set            : FCMP bf16x2|u32|s32 bf16x2                         : s t t
set            : [FCMP LOG] bf16x2|u32|s32 bf16x2                   : s t t pred
cvt            : sat? EACH EACH                                     : s+ t+
cvt            : [RND sat?] f16|f32|f64 EACH                        : s+ t+
cvt            : RND bf16 EACH                                      : s+ t+
cvt            : [INTEGRAL ftz? sat?] EACH f32                      : s+ t+
cvt            : [INTEGRAL sat?] EACH f64|f16|bf16                  : s+ t+
cvt            : [INTEGRAL? ftz? sat?] f32 f32                      : s+ t+
cvt            : [INTEGRAL? sat?] f64 f64                           : s+ t+
cvt            : [INTEGRAL? sat?] f16 f16                           : s+ t+
cvt            : [INTEGRAL?] bf16 bf16                              : s+ t+
cvt            : [ftz? sat?] f64 f32                                : s+ t+
cvt            : sat? f64 f16                                       : s+ t+
cvt            : [ftz? sat?] f32 f16                                : s+ t+
cvt            : [ftz? sat?] f32 bf16                               : s+ t+
cvt            : f64 bf16                                           : s+ t+
cvt            : [RND ftz? sat?] f32 f64                            : s+ t+
cvt            : [RND sat?] f16 f64                                 : s+ t+
cvt            : RND bf16 f64                                       : s+ t+
cvt            : [rn|rz|rm|rp ftz? sat?] f16 f32                    : s+ t+
cvt            : RND f16|bf16 f32                                   : s+ t+
cvt            : [rn|rz relu? satfinite?] f16|bf16 f32              : s+ t+
cvt            : RND f16 bf16                                       : s+ t+
cvt            : RND bf16 f16                                       : s+ t+
cvt            : [rn|rz relu? satfinite?] f16x2|bf16x2 f32          : s t t
cvt            : [rna satfinite?] tf32 f32                          : s t
cvt            : [rn|rz relu? satfinite?] tf32 f32                  : s t
cvt            : [rn satfinite relu?] F8 f32                        : b16 t t
cvt            : [rn satfinite relu?] F8 f16x2                      : b16 t
cvt            : [rn relu?] f16x2 F8                                : b32 b16
- cvt          : [rs relu? satfinite?] f16x2|bf16x2 f32             : * * * *
- cvt          : [rn|rz? satfinite? relu? RND? scaled::n2::ue8m0?] SMALL|bf16x2|f16x2 f32|f16x2|bf16x2|SMALL : * * *?
cvt            : pack sat u16|s16 s32                               : b32 s32 s32
cvt            : pack sat u8|s8 s32 b32                             : b32 s32 s32 b32
- cvt          : pack sat u2|s2|u4|s4 s32 b32                       : * * * *
mov            : pred|b16|b32|b64|b128|INT|f32|f64                  : x x
"""
