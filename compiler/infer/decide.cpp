#include "compiler/infer/decide.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "compiler/infer/embedded_reading.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

// The dimensions in which ranks of one checkpoint differ.
std::vector<std::size_t> UnequalDims(const std::vector<LocalShape>& by_rank) {
  std::vector<std::size_t> dims;
  for (std::size_t dim = 0; dim < by_rank.front().size(); ++dim) {
    std::vector<std::int64_t> widths = WidthsAlong(by_rank, dim);
    if (std::any_of(widths.begin(), widths.end(), [&](std::int64_t width) { return width != widths.front(); })) {
      dims.push_back(dim);
    }
  }
  return dims;
}

std::string ShapeText(const LocalShape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Two degrees of one model: a dimension that is cut has the same total at both, one that is not the same length.
class TwoDegrees {
 public:
  explicit TwoDegrees(const Observation& observation) : observation_(observation) {}

  Decision Decide(const ObservedTensor& tensor) const {
    Decision decision{&tensor, {}, ""};
    std::vector<std::size_t> cut;
    for (std::size_t dim = 0; dim < tensor.by_rank.front().size(); ++dim) {
      if (WidthsAlong(tensor.by_rank, dim) != WidthsAlong(tensor.elsewhere, dim) && Differ(tensor, dim)) {
        cut.push_back(dim);
      }
    }
    if (cut.empty()) {
      decision.readings.push_back(WholeReading(tensor.by_rank.front()));
    } else if (cut.size() == 1) {
      ReadCut(tensor, cut.front(), decision);
    } else {
      decision.question = fmt::format("`{}` is {} at tp={} and {} at tp={}, which no single cut explains", tensor.name,
                                      ShapeText(tensor.by_rank.front()), observation_.tp,
                                      ShapeText(tensor.elsewhere.front()), observation_.elsewhere_tp);
    }
    return decision;
  }

 private:
  static bool Differ(const ObservedTensor& tensor, std::size_t dim) {
    auto differs = [&](const LocalShape& shape) { return shape[dim] != tensor.by_rank.front()[dim]; };
    return std::any_of(tensor.by_rank.begin(), tensor.by_rank.end(), differs) ||
           std::any_of(tensor.elsewhere.begin(), tensor.elsewhere.end(), differs);
  }

  void ReadCut(const ObservedTensor& tensor, std::size_t dim, Decision& decision) const {
    std::vector<std::int64_t> here = WidthsAlong(tensor.by_rank, dim);
    std::vector<std::int64_t> there = WidthsAlong(tensor.elsewhere, dim);
    std::int64_t total = std::accumulate(here.begin(), here.end(), std::int64_t{0});
    std::int64_t other = std::accumulate(there.begin(), there.end(), std::int64_t{0});
    if (total != other) {
      decision.question = fmt::format(
          "dimension {} of `{}` has {} places at tp={} and {} at tp={}: it may be padded to a multiple that depends on "
          "tp, as pad(size, grain * tp)@tp, or be cut only in part",
          dim, tensor.name, total, observation_.tp, other, observation_.elsewhere_tp);
      return;
    }
    decision.readings.push_back(CutReading(tensor.by_rank, dim));
    decision.question = fmt::format(
        "dimension {} is cut, as the shapes at tp={} and tp={} show; in one piece, as here, or part by part (query, "
        "key "
        "and value; gate and up)",
        dim, observation_.tp, observation_.elsewhere_tp);
  }

  const Observation& observation_;
};

// The dimension that tensor parallelism cuts of a linear layer with one of the usual names, as Megatron, AutoTP and the
// plans in transformers do it; nothing for another name. A bias of the layers whose inputs are cut is whole.
std::optional<std::size_t> UsualCut(const ObservedTensor& tensor) {
  static constexpr std::array<std::string_view, 5> kOutputs = {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"};
  static constexpr std::array<std::string_view, 2> kInputs = {"o_proj", "down_proj"};
  const std::string_view name = tensor.name;
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view layer = name.substr(0, dot).substr(name.substr(0, dot).rfind('.') + 1);
  const std::size_t rank = tensor.by_rank.front().size();
  const bool is_weight = name.substr(dot) == ".weight" && rank == 2;
  const bool is_bias = name.substr(dot) == ".bias" && rank == 1;
  if ((is_weight || is_bias) && std::ranges::find(kOutputs, layer) != kOutputs.end()) return 0;
  if (is_weight && std::ranges::find(kInputs, layer) != kInputs.end()) return 1;
  return std::nullopt;
}

// One rank's headers show no cut. A usual name proposes one.
Decision DecideWhole(const ObservedTensor& tensor) {
  const std::optional<std::size_t> cut = UsualCut(tensor);
  if (!cut) return {&tensor, {WholeReading(tensor.by_rank.front())}, ""};
  const char* question = "its name alone says that tp cuts it so: does it";
  return {&tensor, {CutReading(tensor.by_rank, *cut)}, question};
}

// One degree only. Ranks of different sizes show the cut; ranks of equal sizes could be rows, columns or copies.
Decision DecideAlone(const ObservedTensor& tensor) {
  if (tensor.by_rank.size() == 1) return DecideWhole(tensor);
  Decision decision{&tensor, {}, ""};
  const LocalShape& shape = tensor.by_rank.front();
  std::vector<std::size_t> unequal = UnequalDims(tensor.by_rank);
  if (unequal.size() == 1) {
    decision.readings.push_back(CutReading(tensor.by_rank, unequal.front()));
    return decision;
  }
  decision.readings.push_back(WholeReading(shape));
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    decision.readings.push_back(CutReading(tensor.by_rank, dim));
  }
  if (shape.empty()) return decision;
  decision.question = fmt::format("it is {} on each of {} ranks, and nothing says whether these are copies or parts",
                                  ShapeText(shape), tensor.by_rank.size());
  return decision;
}

// The treatment by DeepSpeed's converter of a tensor that its metadata does not describe.
Decision DecideUndescribed(const ObservedTensor& tensor, const std::string& why_unsupported) {
  Decision decision{&tensor, {CutReading(tensor.by_rank, 0)}, ""};
  decision.question =
      why_unsupported.empty()
          ? "no pattern of the checkpoint's metadata names it; DeepSpeed would concatenate it along dimension 0 "
            "without a word, as written here: is it cut that way"
          : fmt::format(
                "the checkpoint's metadata says that it cannot be described: {}; is it cut along dimension 0, "
                "as written here",
                why_unsupported);
  return decision;
}

}  // namespace

llvm::Expected<std::vector<Decision>> Decide(const Observation& observation, const EmbeddedLayout* embedded) {
  std::vector<Decision> decisions;
  UCP_ASSIGN_OR_RETURN(std::optional<EmbeddedReader> reader,
                       EmbeddedReader::Make(embedded, observation.vocabulary_grain));
  for (const ObservedTensor& tensor : observation.tensors) {
    if (!tensor.elsewhere.empty() && tensor.by_rank[0].size() != tensor.elsewhere[0].size()) {
      return Fail(ErrorCode::kBadData, "tensor `{}` has {} dimensions in one checkpoint and {} in the other",
                  tensor.name, tensor.by_rank[0].size(), tensor.elsewhere[0].size());
    }
    std::optional<Decision> decision;
    if (reader && observation.tp > 1) {
      UCP_ASSIGN_OR_RETURN(decision, reader->Read(tensor));
      if (!decision) decision = DecideUndescribed(tensor, reader->WhyUnsupported(tensor.name));
    }
    bool open = !decision || !decision->question.empty();
    if (open && !tensor.elsewhere.empty() && observation.tp != observation.elsewhere_tp) {
      Decision shapes = TwoDegrees(observation).Decide(tensor);
      if (!decision || shapes.readings.size() == 1) decision = std::move(shapes);
    }
    decisions.push_back(decision ? std::move(*decision) : DecideAlone(tensor));
  }
  return decisions;
}

}  // namespace ucp
