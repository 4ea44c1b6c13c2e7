/* A build without the CUDA engine says so. */
#include "check.h"

#include <tapconv.h>

TEST(no_engine)
{
    const tapconv_problem p = tapconv_conv1d(1, 8, 8, 50, 3, 1);
    const tapconv_plan_options o = {.device = TAPCONV_CUDA};
    tapconv_plan *plan = NULL;
    CHECK_FAILS(TAPCONV_NO_DEVICE, tapconv_plan_create(&plan, &p, &o), "cuda", "libtapconv_cuda.so");
}
