#include <algorithm>

#include "kernels/quantize.h"

namespace shardfuzz::kernels {
namespace {

const void* advance(const fp8::Source& source, std::int64_t elements) {
  const std::int64_t size = source.element == fp8::Element::kFloat32 ? 4 : 2;
  return static_cast<const char*>(source.data) + elements * size;
}

}  // namespace

void quantize_cpu(const fp8::Source& source, const fp8::Sink& sink, const fp8::Extent& extent,
                  const Problems& problems, fp8::ScaleRounding rounding, float* scales) {
  for (std::int64_t i = 0; i < problems.count; ++i) {
    fp8::Source from = source;
    from.data = advance(source, i * problems.source_stride);
    fp8::Sink to = sink;
    to.bytes += i * problems.bytes_stride;
    fp8::quantize(from, to, extent, rounding, scales + i * extent.slots);
  }
}

void quantize_groups_cpu(const fp8::Source& source, const fp8::Sink& sink,
                         const fp8::Extent& extent, const Groups& groups,
                         fp8::ScaleRounding rounding, float* scales) {
  std::int64_t start = 0;
  for (std::int64_t group = 0; group < groups.count; ++group) {
    const std::int64_t end = std::clamp<std::int64_t>(groups.ends[group], 0, extent.steps);
    fp8::Source from = source;
    from.data = advance(source, start * source.step_stride);
    fp8::Sink to = sink;
    to.bytes += start * sink.step_stride;
    fp8::quantize(from, to,
                  {.slots = extent.slots, .steps = std::max<std::int64_t>(end - start, 0)},
                  rounding, scales + group * extent.slots);
    start = end;
  }
}

}  // namespace shardfuzz::kernels
