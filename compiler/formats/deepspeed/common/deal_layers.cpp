#include "compiler/formats/deepspeed/common/deal_layers.h"

#include <algorithm>
#include <limits>

namespace ucp {
namespace {

std::vector<std::int64_t> DealUniformly(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> first;
  for (std::int64_t stage = 0; stage <= stages; ++stage) {
    const bool has_one_each = layers <= stages;
    first.push_back(has_one_each ? std::min(stage, layers)
                                 : stage * (layers / stages) + std::min(stage, layers % stages));
  }
  return first;
}

// The smallest difference between the heaviest and the lightest stage that is found by adding stages from the left,
// each of which keeps only the best that was found for those before it. That is not always the smallest there is, and
// of equals the last counts; sums are in double precision. All of it as DeepSpeed has it, since its result is the one
// to be met.
std::vector<std::int64_t> DealByWeight(const std::vector<std::int64_t>& weights, std::int64_t stages) {
  const std::int64_t layers = std::ssize(weights);
  if (layers <= stages) return DealUniformly(layers, stages);
  constexpr double kNone = std::numeric_limits<double>::infinity();
  struct Best {
    double most = kNone, least = kNone, difference = kNone;
    std::int64_t begin = 0;  // Of the last stage.
  };
  std::vector<double> before = {0};
  for (std::int64_t weight : weights) before.push_back(before.back() + static_cast<double>(weight));
  const auto width = static_cast<std::size_t>(stages) + 1;
  std::vector<Best> table((before.size()) * width);
  auto at = [&](std::int64_t end, std::int64_t stage) -> Best& {
    return table[static_cast<std::size_t>(end) * width + static_cast<std::size_t>(stage)];
  };
  at(0, 0) = {0, kNone, 0, 0};
  for (std::int64_t end = 1; end <= layers; ++end) {
    for (std::int64_t stage = 1; stage <= std::min(end, stages); ++stage) {
      Best& best = at(end, stage);
      for (std::int64_t begin = 0; begin < end; ++begin) {
        const Best& rest = at(begin, stage - 1);
        const double weight = before[static_cast<std::size_t>(end)] - before[static_cast<std::size_t>(begin)];
        const double most = std::max(rest.most, weight), least = std::min(rest.least, weight);
        if (best.difference >= most - least) best = {most, least, most - least, begin};
      }
    }
  }
  std::vector<std::int64_t> first = {layers};
  for (std::int64_t stage = stages; stage > 0; --stage) first.push_back(at(first.back(), stage).begin);
  std::reverse(first.begin(), first.end());
  return first;
}

}  // namespace

std::optional<DealMethod> FindDealMethod(std::string_view name) {
  if (name == "uniform") return DealMethod::kUniform;
  if (name == "parameters") return DealMethod::kParameters;
  return std::nullopt;
}

std::vector<std::int64_t> DealLayers(DealMethod method, const std::vector<std::int64_t>& weights, std::int64_t stages) {
  switch (method) {
    case DealMethod::kUniform:
      return DealUniformly(std::ssize(weights), stages);
    case DealMethod::kParameters:
      return DealByWeight(weights, stages);
  }
  return {};
}

}  // namespace ucp
