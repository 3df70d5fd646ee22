// Experts that other ranks have copies of than of the rest have buffers, and an optimizer, of their own.
#include "compiler/formats/megatron/rules/rank_buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "compiler/formats/megatron/rules/module_order.h"

namespace ucp::megatron {
namespace {

using dcp::Chunk;

constexpr std::int64_t kMostRanksOfJob = std::int64_t{1} << 20;
constexpr std::string_view kGroup = "optimizer.distributed.dp_group_idx_";

class Buffers {
 public:
  Buffers(const Arguments& arguments, llvm::function_ref<bool(const RanksBuffer&)> take)
      : arguments_(arguments), take_(take) {}

  std::string Run(std::span<const dcp::Entry* const> tensors) {
    const StageOrder order = OrderOfStages(tensors, arguments_);
    if (!order.unread.empty()) return order.unread;
    bool goes_on = TakeDegrees();
    for (std::size_t stage = 0; goes_on && stage < order.stages.size(); ++stage) {
      goes_on = TakeStage(order.stages[stage], static_cast<std::int64_t>(stage));
    }
    return std::move(unread_);
  }

 private:
  // Why they are not known; false, so that callers end with it.
  bool Give(std::string unread) {
    unread_ = std::move(unread);
    return false;
  }

  // The number of ranks of a kind, if it is one.
  bool TakeDegree(const std::string& name, std::optional<std::int64_t> without, std::int64_t& degree) {
    const auto said = arguments_.Number(name);
    degree = said.value_or(without.value_or(0));
    if (degree > 0 && degree <= kMostRanksOfJob) return true;
    return Give(fmt::format("`args.{}` is {}, by which its buffers are numbered", name,
                            said ? fmt::to_string(*said) : "missing"));
  }

  bool TakeDegrees() {
    return TakeDegree("tensor_model_parallel_size", std::nullopt, tensor_parallel_) &&
           TakeDegree("data_parallel_size", 1, data_parallel_) &&
           TakeDegree("context_parallel_size", 1, context_parallel_) &&
           TakeDegree("expert_model_parallel_size", 1, expert_parallel_) &&
           TakeDegree("expert_tensor_parallel_size", tensor_parallel_, tensor_parallel_of_experts_) && AreRanksOfJob();
  }

  // Products of degrees, each of which is below 2^20 and a bit, do not overflow.
  bool AreRanksOfJob() {
    const std::int64_t copies = data_parallel_ * context_parallel_;
    if (copies <= kMostRanksOfJob && tensor_parallel_ * copies <= kMostRanksOfJob) return true;
    return Give(fmt::format("`args` speaks of {} ranks", tensor_parallel_ * copies));
  }

  // Experts that no other rank has stand among the rest.
  bool TakeStage(const std::vector<ModuleParameter>& order, std::int64_t stage) {
    std::vector<ModuleParameter> dense;
    std::vector<ModuleParameter> experts;
    for (const ModuleParameter& parameter : order) {
      (parameter.is_of_expert && expert_parallel_ > 1 ? experts : dense).push_back(parameter);
    }
    const std::int64_t copies = data_parallel_ * context_parallel_;
    const std::string_view optimizer = kOptimizers[expert_parallel_ > 1 ? 1 : 0];
    for (std::int64_t rank = 0; rank < tensor_parallel_; ++rank) {
      const std::int64_t number = rank + tensor_parallel_ * stage;
      if (!TakeBuffer({optimizer, number, stage, copies, {}}, {rank, tensor_parallel_}, dense)) return false;
    }
    if (experts.empty()) return true;
    const std::int64_t parts = tensor_parallel_of_experts_;
    const std::int64_t ranks = tensor_parallel_ * copies;  // Of the stage.
    if (ranks % (expert_parallel_ * parts) != 0) {
      return Give(fmt::format("the arguments say that {} ranks of a stage share experts among {} times {}", ranks,
                              expert_parallel_, parts));
    }
    for (std::int64_t group = 0; group < expert_parallel_; ++group) {
      const auto held = ExpertsOf(experts, group);
      if (!held) return false;
      for (std::int64_t rank = 0; rank < parts; ++rank) {
        const std::int64_t number = rank + parts * (group + expert_parallel_ * stage);
        if (!TakeBuffer({kOptimizers[2], number, stage, ranks / (expert_parallel_ * parts), {}}, {rank, parts},
                        *held)) {
          return false;
        }
      }
    }
    return true;
  }

  // Those of one expert-parallel rank: as many as each other has, one behind the other.
  std::optional<std::vector<ModuleParameter>> ExpertsOf(const std::vector<ModuleParameter>& experts,
                                                        std::int64_t rank) {
    std::vector<ModuleParameter> held;
    for (const ModuleParameter& parameter : experts) {
      const std::int64_t count = parameter.tensor->shape[parameter.place.size() - 1];
      if (count == 0 || count % expert_parallel_ != 0) {
        Give(fmt::format("`{}` has {} experts, which {} ranks cannot share evenly", parameter.tensor->key, count,
                         expert_parallel_));
        return std::nullopt;
      }
      if (parameter.place.back() / (count / expert_parallel_) == rank) held.push_back(parameter);
    }
    return held;
  }

  // Of those that cut tensors, the one whose parts are asked for.
  struct Rank {
    std::int64_t rank = 0;
    std::int64_t ranks = 1;
  };

  bool TakeBuffer(RanksBuffer buffer, Rank rank, const std::vector<ModuleParameter>& order) {
    for (const ModuleParameter& parameter : order) {
      buffer.parameters.push_back({parameter.tensor, PartsOf(parameter, rank)});
      if (!buffer.parameters.back().parts.empty()) continue;
      return Give(fmt::format("the chunks of `{}` are not those of {} ranks", parameter.tensor->key, rank.ranks));
    }
    return take_(buffer);
  }

  // The parts that a rank has: of a tensor that all ranks have, of one that is cut, or of one of two halves.
  static std::vector<const Chunk*> PartsOf(const ModuleParameter& parameter, Rank rank) {
    const llvm::ArrayRef<std::int64_t> place = parameter.place;
    const auto outer = [&](const Chunk& chunk) { return llvm::ArrayRef(chunk.offsets).take_front(place.size()); };
    const auto is_before = [](llvm::ArrayRef<std::int64_t> a, llvm::ArrayRef<std::int64_t> b) {
      return std::ranges::lexicographical_compare(a, b);
    };
    const auto all = std::ranges::equal_range(parameter.tensor->chunks, place, is_before, outer);
    const bool are_single = std::ranges::all_of(all, [&](const Chunk& chunk) {
      const auto sizes = llvm::ArrayRef(chunk.sizes).take_front(place.size());
      return std::ranges::all_of(sizes, [](std::int64_t size) { return size == 1; });
    });
    const std::int64_t count = std::ssize(all);
    if (!are_single) return {};
    if (count == 1) return {&all.front()};
    const Chunk* own = all.data() + rank.rank;
    if (count == rank.ranks) return {own};
    if (count != 2 * rank.ranks) return {};
    return {own, own + rank.ranks};
  }

  const Arguments& arguments_;
  const llvm::function_ref<bool(const RanksBuffer&)> take_;
  std::int64_t tensor_parallel_ = 0;
  std::int64_t data_parallel_ = 0;
  std::int64_t context_parallel_ = 0;
  std::int64_t expert_parallel_ = 0;
  std::int64_t tensor_parallel_of_experts_ = 0;
  std::string unread_;
};

}  // namespace

std::int64_t ElementsIn(const Chunk& chunk) {
  return std::accumulate(chunk.sizes.begin(), chunk.sizes.end(), std::int64_t{1}, std::multiplies<>());
}

std::string NameOfObject(std::string_view optimizer, std::int64_t buffer, std::string_view object) {
  return fmt::format("{}{}{}.{}", optimizer, kGroup, buffer, object);
}

std::string RanksBuffer::Object(std::string_view name) const { return NameOfObject(optimizer, number, name); }

std::string RanksBuffer::key() const { return fmt::format("{}{}{}", optimizer, kGroup, number); }

std::vector<std::int64_t> RanksBuffer::elements() const {
  std::vector<std::int64_t> counts;
  for (const BufferParameter& parameter : parameters) {
    std::int64_t& count = counts.emplace_back();
    for (const Chunk* part : parameter.parts) count += ElementsIn(*part);
  }
  return counts;
}

std::string ForEachBuffer(std::span<const dcp::Entry* const> tensors, const Arguments& arguments,
                          llvm::function_ref<bool(const RanksBuffer&)> take) {
  return Buffers(arguments, take).Run(tensors);
}

}  // namespace ucp::megatron
