/* Every slot of every instruction set that this machine runs, for both real types: a kernel that is registered is
 * checked. */
#include "slots.h"

#include <stdio.h>

static void check_all(const slots *s)
{
    static void (*const checks[])(const slots *) = {check_tiles, check_thin,       check_rows, check_load,
                                                    check_taps,  check_phases,     check_emit, check_moments,
                                                    check_peak,  check_stream_copy};
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) checks[i](s);
}

int main(int argc, char **argv)
{
    const int64_t rounds = check_begin(argc, argv, 100);
    for (uint32_t bit = 1; bit != 0; bit <<= 1) {
        if (!(tapconv_cpu_features() & bit)) continue;
        const tapconv_isa *const isa = tapconv_isa_choose(bit);
        for (int wide = 0; wide < 2; wide++) {
            char name[32];
            const slots s = {
                .isa = isa, .real = isa->real[wide], .type = wide ? TAPCONV_F64 : TAPCONV_F32, .name = name};
            snprintf(name, sizeof name, "%s %s", tapconv_isa_name(isa->bit), tapconv_type_name(s.type));
            check_context("%s", name);
            CHECK(isa->bit == bit && s.real->bytes == (wide ? 8 : 4));
            for (int64_t round = 0; round < rounds; round++) check_all(&s);
        }
    }
    return check_end();
}
