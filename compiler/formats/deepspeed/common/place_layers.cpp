#include "compiler/formats/deepspeed/common/place_layers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::int64_t kMostLayers = 2000;
constexpr std::int64_t kBehindLast = 3;  // How many layers without a file are tried behind the last one with a file.
constexpr std::size_t kMostPlaces = 8;   // Without a file, where several kinds of layers could be.

constexpr const char* kNoParameters = "";

// A pipeline that could have left the files: the prefix of each layer, empty for one without parameters.
using Guess = std::vector<std::string>;

class Guesses {
 public:
  explicit Guesses(const PipelineSource& source) : source_(source) {
    for (const auto& [layer, prefix] : source.layers.prefixes) {
      if (prefix.starts_with("tied_modules.")) tied_.insert(prefix);
    }
  }

  std::int64_t last() const { return source_.layers.prefixes.rbegin()->first; }

  // Calls `visit` with every pipeline of `count` layers that could be the source's. False if there are too many.
  bool Visit(std::int64_t count, const std::function<void(const Guess&)>& visit) {
    Guess guess(static_cast<std::size_t>(count), kNoParameters);
    std::vector<std::size_t> open;
    for (std::int64_t layer = 0; layer < count; ++layer) {
      auto known = source_.layers.prefixes.find(layer);
      const auto at = static_cast<std::size_t>(layer);
      if (known == source_.layers.prefixes.end()) {
        open.push_back(at);
      } else {
        guess[at] = known->second;
      }
    }
    if (!tied_.empty() && open.size() > kMostPlaces) return false;
    VisitFrom(guess, open, 0, visit);
    return true;
  }

 private:
  void VisitFrom(Guess& guess, const std::vector<std::size_t>& open, std::size_t next,
                 const std::function<void(const Guess&)>& visit) {
    if (next == open.size()) {
      if (CouldBe(guess)) visit(guess);
      return;
    }
    VisitFrom(guess, open, next + 1, visit);
    for (const std::string& prefix : tied_) {
      guess[open[next]] = prefix;
      VisitFrom(guess, open, next + 1, visit);
    }
    guess[open[next]] = kNoParameters;
  }

  // Stages are runs of layers: a layer is on one that is not before those of the layers before it.
  std::pair<std::int64_t, std::int64_t> PossibleStages(std::size_t layer) const {
    std::int64_t from = 0, to = source_.stage_count - 1;
    for (const auto& [other, prefix] : source_.layers.prefixes) {
      if (prefix.starts_with("tied_modules.")) continue;
      const std::int64_t stage = *source_.stages.at(prefix).begin();
      if (other <= static_cast<std::int64_t>(layer)) from = std::max(from, stage);
      if (other >= static_cast<std::int64_t>(layer)) to = std::min(to, stage);
    }
    return {from, to};
  }

  // A module is tied because two layers use it. Each stage that has it has such a layer, and no layer is elsewhere.
  bool CouldBe(const Guess& guess) const {
    for (const std::string& prefix : tied_) {
      if (std::count(guess.begin(), guess.end(), prefix) < 2) return false;
      if (source_.stage_count == 1) continue;
      const std::set<std::int64_t>& held = source_.stages.at(prefix);
      std::set<std::int64_t> reached;
      for (std::size_t layer = 0; layer < guess.size(); ++layer) {
        if (guess[layer] != prefix) continue;
        const auto [from, to] = PossibleStages(layer);
        bool any = false;
        for (std::int64_t stage = from; stage <= to; ++stage) any = held.contains(stage) || any;
        if (!any) return false;
        for (std::int64_t stage = from; stage <= to; ++stage) reached.insert(stage);
      }
      if (!std::includes(reached.begin(), reached.end(), held.begin(), held.end())) return false;
    }
    return true;
  }

  const PipelineSource& source_;
  std::set<std::string> tied_;
};

std::ptrdiff_t LayersWithParameters(const Guess& guess) {
  return std::count_if(guess.begin(), guess.end(), [](const std::string& prefix) { return prefix != kNoParameters; });
}

// The description of a dealt pipeline that a target needs.
PipelineStages StagesOf(const Guess& guess, const std::vector<std::int64_t>& first, std::int64_t known_layers) {
  PipelineStages stages;
  std::map<std::string, std::set<std::int64_t>> found;
  for (std::size_t stage = 0; stage + 1 < first.size(); ++stage) {
    for (std::int64_t layer = first[stage]; layer < first[stage + 1]; ++layer) {
      const std::string& prefix = guess[static_cast<std::size_t>(layer)];
      if (prefix != kNoParameters) found[prefix].insert(static_cast<std::int64_t>(stage));
    }
    stages.layers.push_back(std::min(first[stage + 1], known_layers) - std::min(first[stage], known_layers));
  }
  for (const auto& [prefix, held] : found) stages.of_prefix[prefix].assign(held.begin(), held.end());
  return stages;
}

std::string Text(const PipelineStages& stages) { return fmt::format("{}", fmt::join(stages.layers, "+")); }

}  // namespace

llvm::Expected<PipelineStages> PlaceLayers(const PipelineSource& source, std::int64_t stages,
                                           const std::variant<DealMethod, std::vector<std::int64_t>>& how) {
  Guesses guesses(source);
  const auto* counts = std::get_if<std::vector<std::int64_t>>(&how);
  std::int64_t fewest = guesses.last() + 1, most = fewest + kBehindLast;
  std::vector<std::int64_t> first = {0};
  if (counts != nullptr) {
    for (std::int64_t count : *counts) first.push_back(first.back() + count);
    if (first.back() < fewest) {
      return Fail(ErrorCode::kUsage, "pp={} has {} layers, and the source has the file of layer {}, which makes {}",
                  fmt::join(*counts, "+"), first.back(), guesses.last(), fewest);
    }
    fewest = most = first.back();
  }
  if (most > kMostLayers) {
    return Fail(ErrorCode::kUsage, "a pipeline of {} layers or more; {} are served", fewest, kMostLayers);
  }
  std::ptrdiff_t least = std::numeric_limits<std::ptrdiff_t>::max();
  for (std::int64_t layers = fewest; layers <= most; ++layers) {
    guesses.Visit(layers, [&](const Guess& guess) { least = std::min(least, LayersWithParameters(guess)); });
  }
  std::optional<PipelineStages> agreed;
  bool differ = false;
  for (std::int64_t layers = fewest; layers <= most; ++layers) {
    const bool visited = guesses.Visit(layers, [&](const Guess& guess) {
      if (LayersWithParameters(guess) > least) return;
      std::vector<std::int64_t> weights;
      for (const std::string& prefix : guess) {
        weights.push_back(prefix == kNoParameters ? 0 : source.weights.at(prefix));
      }
      if (counts == nullptr) first = DealLayers(std::get<DealMethod>(how), weights, stages);
      PipelineStages found = StagesOf(guess, first, guesses.last() + 1);
      differ = differ || (agreed && agreed->of_prefix != found.of_prefix);
      if (!agreed) agreed = std::move(found);
    });
    differ = differ || !visited;
  }
  if (agreed && !differ) return *agreed;
  if (!agreed) {
    return Fail(ErrorCode::kUsage,
                "no pipeline of {} layers could have left the source's files: a tied module has no second layer",
                fewest);
  }
  return Fail(
      ErrorCode::kUsage,
      "which layers of the pipeline have no file is not known, and the stages depend on it; say in the strategy "
      "how many layers each stage has, as the job prints it ({} for example)",
      Text(*agreed));
}

}  // namespace ucp
