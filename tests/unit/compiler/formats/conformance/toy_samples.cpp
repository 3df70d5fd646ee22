#include "tests/unit/compiler/formats/conformance/samples.h"

namespace ucp {

std::vector<Sample> WrittenSamples() {
  return {{"toy", "zero1_dp2"}, {"toy", "bf16_optimizer_dp4_tiny"}, {"toy", "frozen_buffers_zero2"}};
}

std::vector<Sample> AllSamples() { return WrittenSamples(); }

}  // namespace ucp
