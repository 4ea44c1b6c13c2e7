// A causal difference filter, y[t] = x[t] - x[t-1], by the installed library, from C++.
#include <tapconv.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <vector>

static void check(tapconv_status status)
{
    if (status != TAPCONV_OK) throw std::runtime_error(tapconv_last_error());
}

int main()
{
    const std::vector<float> x{1, 3, 6, 10}, w{-1, 1}, expected{1, 2, 3, 4};
    std::vector<float> y(x.size());
    const tapconv_problem problem = tapconv_causal_conv1d(1, 1, 1, 4, 2, 1);
    tapconv_plan *created = nullptr;
    check(tapconv_plan_create(&created, &problem, nullptr));
    const std::unique_ptr<tapconv_plan, decltype(&tapconv_plan_destroy)> plan(created, tapconv_plan_destroy);

    std::vector<std::uint64_t> packed(tapconv_packed_weights_bytes(created) / 8 + 1);
    std::vector<unsigned char> workspace(tapconv_workspace_bytes(created));
    check(tapconv_pack_weights(created, w.data(), packed.data(), packed.size() * 8));
    tapconv_arrays arrays{};
    arrays.x = x.data();
    arrays.packed_weights = packed.data();
    arrays.y = y.data();
    arrays.workspace = workspace.data();
    arrays.workspace_bytes = workspace.size();
    check(tapconv_execute(created, &arrays));

    std::cout << "tapconv " << tapconv_version() << '\n';
    return y == expected ? 0 : 1;
}
