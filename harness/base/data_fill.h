// The data of a case: every element is a function of (case seed, place, index), the same on every
// machine, so that a wrong byte names the element it should have been.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardfuzz {

inline constexpr int kWeightRange = 8;  // of parameters
inline constexpr int kInputRange = 1;   // of inputs and of the loss's weights

// Element i: an integer in [-range, range], or (not `integer`) about normal with deviation range
// / 4. `place` names the tensor: "group.param", "x/rank/step/...". Other ranges than the two above
// are refused (check).
void fill_data(float* data, std::int64_t count, std::uint64_t seed, std::string_view place,
               int range, bool integer);

}  // namespace shardfuzz
