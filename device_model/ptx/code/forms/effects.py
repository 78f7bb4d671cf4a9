"""The forms of what goes to memory, to other lanes or elsewhere, in the notation of `form`."""

TABLE = """
cvta           : to? WINDOW u32|u64                                 : t x
- cvta         : to? shared::cluster u32|u64                        : * *
isspacep       : WINDOW                                             : pred b64
isspacep       : shared::cluster                                    : pred b64
ld             : [weak? SPACE? ca|cg|cs|lu|cv? KEEP1? HINT? AHEAD?] ANY|b128 : t+ mem policy
ld             : [weak? SPACE? ca|cg|cs|lu|cv? KEEP1? HINT? AHEAD? v2|v4] ANY|b128 : {t+} mem policy
ld             : [weak? global ca|cg|cs|lu|cv? nc KEEP1? HINT? AHEAD?] ANY|b128 : t+ mem policy
ld             : [weak? global ca|cg|cs|lu|cv? nc KEEP1? HINT? AHEAD? v2|v4] ANY|b128 : {t+} mem policy
ld             : [volatile SPACE? AHEAD?] ANY|b128                  : t+ mem
ld             : [volatile SPACE? AHEAD? v2|v4] ANY                 : {t+} mem
ld             : [relaxed|acquire SCOPE SPACE? KEEP1? HINT? AHEAD?] ANY|b128 : t+ mem policy
ld             : [relaxed|acquire SCOPE SPACE? KEEP1? HINT? AHEAD? v2|v4] ANY : {t+} mem policy
ld             : [mmio relaxed sys global?] ANY                     : t+ mem
ldu            : [global?] ANY|b128                                 : t+ mem
ldu            : [global? v2|v4] ANY                                : {t+} mem
- ld           : [weak? volatile? relaxed|acquire? SCOPE? shared::cluster ca|cg|cs|lu|cv? v2|v4?] ANY : * mem
- ld           : [weak? global? nc? KEEP1? KEEP2? HINT? AHEAD? v8|v4] ANY : * mem policy
st             : [weak? OUT? wb|cg|cs|wt? KEEP1? HINT?] ANY|b128    : mem t+ policy
st             : [weak? OUT? wb|cg|cs|wt? KEEP1? HINT? v2|v4] ANY|b128 : mem {t+} policy
st             : [volatile OUT?] ANY|b128                           : mem t+
st             : [volatile OUT? v2|v4] ANY                          : mem {t+}
st             : [relaxed|release SCOPE OUT? KEEP1? HINT?] ANY|b128 : mem t+ policy
st             : [relaxed|release SCOPE OUT? KEEP1? HINT? v2|v4] ANY : mem {t+} policy
st             : [mmio relaxed sys global?] ANY                     : mem t+
- st           : [weak? volatile? ROUT? SCOPE? shared::cluster v2|v4?] ANY : mem *
- st           : [weak? global? KEEP1? KEEP2? HINT? v8] ANY         : mem * policy
- st           : async [weak? release? gpu|sys|cluster|mmio? global|shared::cluster? TX? v2|v4?] ANY : mem * mem?
- st           : bulk [weak? SHARED?]                               : mem * *
prefetch       : [global|local? L1|L2]                              : mem
prefetch       : global? L2::evict_last|L2::evict_normal            : mem
prefetchu      : L1                                                 : mem
- prefetch     : [const|param? tensormap]                           : mem
discard        : global? L2                                         : mem num
applypriority  : global? L2::evict_normal                           : mem num
membar         : gl|cta|sys                                         :
fence          : [sc|acq_rel|acquire|release? SCOPE]                :
fence          : mbarrier_init release cluster                      :
membar         : proxy alias                                        :
fence          : proxy alias|async|async.global|async.shared::cta|async.shared::cluster :
- fence        : proxy tensormap::generic release|acquire SCOPE     : mem? num?
- fence        : acquire|release RESTRICT cluster                   :
- fence        : proxy async::generic acquire|release RESTRICT cluster :
pmevent        : mask?                                              : num
griddepcontrol : launch_dependents|wait                             :
createpolicy   : fractional PRIORITY L2::evict_first|L2::evict_unchanged? b64 : b64 f32?
createpolicy   : range global? PRIORITY L2::evict_first|L2::evict_unchanged? b64 : b64 mem b32 b32
createpolicy   : cvt L2 b64                                         : b64 b64
atom           : [ORDER? SCOPE? GS? and|or|xor HINT?] b32|b64       : t_ mem t policy
atom           : [ORDER? SCOPE? GS? exch HINT?] b32|b64|b128        : t_ mem t policy
atom           : [ORDER? SCOPE? GS? cas HINT?] b16|b32|b64|b128     : t_ mem t t policy
atom           : [ORDER? SCOPE? GS? add HINT?] u32|s32|u64|f32|f64  : t_ mem t policy
atom           : [ORDER? SCOPE? GS? inc|dec HINT?] u32              : t_ mem t policy
atom           : [ORDER? SCOPE? GS? min|max HINT?] u32|s32|u64|s64  : t_ mem t policy
atom           : [ORDER? SCOPE? GS? add noftz HINT?] HALF           : t_ mem t policy
atom           : [ORDER? SCOPE? global? add HINT? v2|v4] f32        : {t} mem {t} policy
atom           : [ORDER? SCOPE? global? add|min|max noftz HINT? v2|v4|v8] f16|bf16 : {t} mem {t} policy
atom           : [ORDER? SCOPE? global? add|min|max noftz HINT? v2|v4] f16x2|bf16x2 : {t} mem {t} policy
red            : [ROUT? SCOPE? GS? and|or|xor HINT?] b32|b64        : mem t policy
red            : [ROUT? SCOPE? GS? add HINT?] u32|s32|u64|f32|f64   : mem t policy
red            : [ROUT? SCOPE? GS? inc|dec HINT?] u32               : mem t policy
red            : [ROUT? SCOPE? GS? min|max HINT?] u32|s32|u64|s64   : mem t policy
red            : [ROUT? SCOPE? GS? add noftz HINT?] HALF            : mem t policy
red            : [ROUT? SCOPE? global? add HINT? v2|v4] f32         : mem {t} policy
red            : [ROUT? SCOPE? global? add|min|max noftz HINT? v2|v4|v8] f16|bf16 : mem {t} policy
red            : [ROUT? SCOPE? global? add|min|max noftz HINT? v2|v4] f16x2|bf16x2 : mem {t} policy
- atom         : [ORDER? SCOPE? shared::cluster ARITH noftz?] b16|b32|b64|u32|s32|u64|s64|f32|f64|HALF : * mem * *?
- red          : [ROUT? SCOPE? shared::cluster ARITH noftz?] b32|b64|u32|s32|u64|s64|f32|f64|HALF : mem *
- red          : async [ROUT? mmio? SCOPE? global|shared::cluster? ARITH TX?] u32|s32|u64|s64|b32 : mem * mem?
bar            : cta? sync                                          : u32 u32?
barrier        : cta? sync aligned?                                 : u32 u32?
bar            : cta? arrive                                        : u32 u32
barrier        : cta? arrive aligned?                               : u32 u32
bar            : cta? red popc u32                                  : u32 u32 u32? pred
bar            : cta? red and|or pred                               : pred u32 u32? pred
barrier        : cta? red popc aligned? u32                         : u32 u32 u32? pred
barrier        : cta? red and|or aligned? pred                      : pred u32 u32? pred
bar            : warp sync                                          : u32
- barrier      : cluster [arrive|wait release|relaxed|acquire? aligned?] :
shfl           : [up|down|bfly|idx b32]                             : b32/pred b32 b32 b32
shfl           : [sync up|down|bfly|idx b32]                        : b32/pred b32 b32 b32 b32
vote           : [all|any|uni pred]                                 : pred pred
vote           : [ballot b32]                                       : b32 pred
vote           : [sync all|any|uni pred]                            : pred pred b32
vote           : [sync ballot b32]                                  : b32 pred b32
match          : [any sync] b32|b64                                 : b32 t b32
match          : [all sync] b32|b64                                 : b32/pred t b32
redux          : [sync add|min|max] u32|s32                         : t t b32
redux          : [sync and|or|xor] b32                              : t t b32
- redux        : [sync min|max abs? NaN?] f32                       : t t b32
activemask     : b32                                                : b32
elect          : sync                                               : b32&pred b32
nanosleep      : u32                                                : u32
call           : uni?                                               : *
ret            : uni?                                               :
bra            : uni?                                               : label
brx            : idx uni?                                           : u32 table
exit trap brkpt :                                                    :
ldmatrix       : sync aligned m8n8 x1|x2|x4 [trans? SHARED?] b16    : {b32} mem
stmatrix       : sync aligned m8n8 x1|x2|x4 [trans? SHARED?] b16    : mem {b32}
- ldmatrix     : sync aligned m16n16|m8n16 x1|x2|x4 [trans? SHARED?] b8|b8x16.b6x16_p32|b8x16.b4x16_p64 : * mem
- stmatrix     : sync aligned m16n8 x1|x2|x4 [trans? SHARED?] b8    : mem *
movmatrix      : sync aligned m8n8 trans b16                        : b32 b32
mma            : sync aligned SHAPE row col f16|f32 f16 f16 f16|f32 : {} {} {} {}
mma            : sync aligned SHAPE row col f32 bf16|tf32 bf16|tf32 f32 : {} {} {} {}
mma            : sync aligned SHAPE row col satfinite? s32 s8|u8 s8|u8 s32 : {} {} {} {}
mma            : sync aligned SHAPE row col RND? f64 f64 f64 f64    : {} {} {} {}
- mma          : sync aligned m8n8k4 row|col row|col f16|f32 f16 f16 f16|f32 : * * * *
- mma          : sync aligned SHAPE row col kind::f8f6f4? f16|f32 EIGHTH EIGHTH f16|f32 : * * * *
- mma          : sync aligned SHAPE row col satfinite? s32 s4|u4 s4|u4 s32 : * * * *
- mma          : sync aligned SHAPE row col s32 b1 b1 s32 xor.popc|and.popc : * * * *
- mma          : SP sync aligned SHAPE row col satfinite? kind::f8f6f4? SUM SPARSE SPARSE SUM : * * * * * *
wmma           : load a|b sync aligned row|col SHAPE [GS?] f16|bf16|tf32|s8|u8|f64 : {} mem u32?
wmma           : load c sync aligned row|col SHAPE [GS?] f16|f32|s32|f64 : {} mem u32?
wmma           : store d sync aligned row|col SHAPE [GS?] f16|f32|s32|f64 : mem {} u32?
wmma           : mma sync aligned row|col row|col SHAPE satfinite? f16|f32 f16|f32 : {} {} {} {}
wmma           : mma sync aligned row|col row|col SHAPE satfinite? f16|f32 f16 f16 f16|f32 : {} {} {} {}
wmma           : mma sync aligned row|col row|col SHAPE f32 bf16|tf32 bf16|tf32 f32 : {} {} {} {}
wmma           : mma sync aligned row|col row|col SHAPE satfinite? s32 s8|u8 s8|u8 s32 : {} {} {} {}
wmma           : mma sync aligned row|col row|col SHAPE rn? f64 f64 f64 f64 : {} {} {} {}
- wmma         : load a|b|c sync aligned row|col SHAPE [GS?] b1|s4|u4 : * mem u32?
- wmma         : mma xor.popc|and.popc? sync aligned row col SHAPE satfinite? s32 b1|s4|u4 b1|s4|u4 s32 : * * * *
cp             : async [ca SHARED global HINT? AHEAD?]              : mem@shared mem@global num *? policy
cp             : async [cg SHARED global HINT? AHEAD?]              : mem@shared mem@global num *? policy
cp             : async commit_group|wait_all                        :
cp             : async wait_group                                   : num
cp             : async mbarrier arrive noinc? SHARED? b64           : mem
cp             : async bulk shared::cluster|shared::cta global [TX HINT?] : mem@shared mem@global u32 mem@shared policy
cp             : async bulk global shared::cta [bulk_group HINT?]   : mem@global mem@shared u32 policy
cp             : async bulk commit_group                            :
cp             : async bulk wait_group read?                        : num
- cp           : async bulk shared::cluster shared::cta TX          : mem mem u32 mem
- cp           : async bulk shared::cluster global [TX HINT? MANY]  : mem@shared mem@global u32 mem * policy
- cp           : async bulk global shared::cta bulk_group HINT? cp_mask : mem@global mem@shared u32 policy *
- cp           : async bulk prefetch L2 global HINT?                : mem u32 policy
mbarrier       : init SHARED? b64                                   : mem u32
mbarrier       : inval SHARED? b64                                  : mem
mbarrier       : expect_tx|complete_tx SHARED? b64                  : mem u32
mbarrier       : expect_tx|complete_tx [relaxed cta|cluster SHARED?] b64 : mem u32
mbarrier       : arrive|arrive_drop SHARED? b64                     : b64_ mem u32?
mbarrier       : arrive|arrive_drop [release|relaxed cta|cluster SHARED?] b64 : b64_ mem u32?
mbarrier       : arrive|arrive_drop expect_tx SHARED? b64           : b64_ mem u32
mbarrier       : arrive|arrive_drop expect_tx [release|relaxed cta|cluster SHARED?] b64 : b64_ mem u32
mbarrier       : arrive|arrive_drop noComplete SHARED? b64          : b64_ mem u32
mbarrier       : arrive|arrive_drop noComplete [release cta SHARED?] b64 : b64_ mem u32
mbarrier       : test_wait SHARED? b64                              : pred mem b64
mbarrier       : test_wait [acquire|relaxed cta|cluster SHARED?] b64 : pred mem b64
mbarrier       : test_wait parity SHARED? b64                       : pred mem u32
mbarrier       : test_wait parity [acquire|relaxed cta|cluster SHARED?] b64 : pred mem u32
mbarrier       : try_wait SHARED? b64                               : pred mem b64 u32?
mbarrier       : try_wait [acquire|relaxed cta|cluster SHARED?] b64 : pred mem b64 u32?
mbarrier       : try_wait parity SHARED? b64                        : pred mem u32 u32?
mbarrier       : try_wait parity [acquire|relaxed cta|cluster SHARED?] b64 : pred mem u32 u32?
mbarrier       : pending_count b64                                  : u32 b64
- mbarrier     : arrive|arrive_drop [expect_tx? release|relaxed? cta|cluster? shared::cluster] b64 : * mem u32?
"""
