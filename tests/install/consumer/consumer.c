/* A causal difference filter, y[t] = x[t] - x[t-1], by the installed library. */
#include <tapconv.h>

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    const float x[4] = {1, 3, 6, 10}, w[2] = {-1, 1}, expected[4] = {1, 2, 3, 4};
    float y[4] = {0};
    tapconv_problem problem = tapconv_causal_conv1d(1, 1, 1, 4, 2, 1);
    tapconv_plan *plan;
    if (tapconv_plan_create(&plan, &problem, NULL) != TAPCONV_OK) {
        puts(tapconv_last_error());
        return 1;
    }
    size_t packed_bytes = tapconv_packed_weights_bytes(plan), workspace_bytes = tapconv_workspace_bytes(plan);
    void *packed = malloc(packed_bytes), *workspace = malloc(workspace_bytes + 1);
    if (!packed || !workspace) return 1;
    tapconv_arrays arrays = {
        .x = x, .packed_weights = packed, .y = y, .workspace = workspace, .workspace_bytes = workspace_bytes};
    if (tapconv_pack_weights(plan, w, packed, packed_bytes) != TAPCONV_OK ||
        tapconv_execute(plan, &arrays) != TAPCONV_OK) {
        puts(tapconv_last_error());
        return 1;
    }
    for (int t = 0; t < 4; t++)
        if (y[t] != expected[t]) {
            printf("y[%d] is %g, not %g\n", t, (double)y[t], (double)expected[t]);
            return 1;
        }
    tapconv_plan_destroy(plan);
    free(packed);
    free(workspace);
    printf("tapconv %s\n", tapconv_version());
    return 0;
}
