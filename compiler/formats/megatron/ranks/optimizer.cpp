#include "compiler/formats/megatron/ranks/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "compiler/formats/megatron/rules/buckets.h"
#include "compiler/formats/megatron/rules/groups.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using pytorch::Value;
using pytorch::ValuePtr;

constexpr std::string_view kStep = "step";

// The parameters of a rank that an optimizer steps: all; or of two the first the rest, and the second experts.
struct Share {
  std::size_t number = 0;
  std::size_t count = 1;

  bool Has(const LocalTensor& tensor) const {
    if (IsBuffer(tensor.name)) return false;
    return count == 1 || IsOfExperts(tensor.name) == (number == 1);
  }
};

// Elements of a tensor from this one on.
StateBuffer StateOf(Storage& storage, const std::string& state, const TensorPlace& place, std::int64_t first,
                    std::int64_t elements) {
  Buffer buffer{place.dtype, elements, {{place.record, place.offset + first, elements}}};
  return {state, storage.Add(std::move(buffer))};
}

llvm::Expected<Common> KeepGroups(const OptimizerContext& context, const SourceArchive& file, const Value& optimizer) {
  Common common;
  AddGroups(optimizer, common);
  for (ValuePtr& group : common.groups) {
    UCP_ASSIGN_OR_RETURN(group, context.archives.Keep(file, group, "`optimizer`"));
  }
  return common;
}

// A rank's parameters, by the group of the optimizer that steps them.
class Dealt {
 public:
  struct Place {
    std::size_t part = 0;
    std::size_t tensor = 0;
  };

  Dealt(const Common& common, const RankOfModel& rank, Share share) : of_group_(common.groups.size()) {
    std::map<std::string, std::size_t> group_of;  // Parts have tensors of the same names, which go the same way.
    std::vector<Parameter> parameters;
    for (const ModelPart& part : rank.parts) {
      for (const LocalTensor& tensor : part.tensors) {
        if (share.Has(tensor) && group_of.emplace(tensor.name, 0).second)
          parameters.push_back({tensor.name, tensor.place.sizes.size()});
      }
    }
    const Groups groups = DealIntoGroups(common, parameters);
    unread_ = groups.unread;
    for (std::size_t g = 0; g < groups.groups.size(); ++g) {
      for (const std::string& name : groups.groups[g].parameters) group_of[name] = g;
    }
    if (!unread_.empty()) return;
    for (std::size_t p = 0; p < rank.parts.size(); ++p) {
      const auto& tensors = rank.parts[p].tensors;
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (share.Has(tensors[t])) of_group_[group_of[tensors[t].name]].push_back({p, t});
      }
    }
  }

  const std::string& unread() const { return unread_; }
  const std::vector<Place>& OfGroup(std::size_t group) const { return of_group_[group]; }

 private:
  std::vector<std::vector<Place>> of_group_;
  std::string unread_;
};

class PlainReader {
 public:
  PlainReader(const OptimizerContext& context, const SourceArchive& file, RankOfModel& rank, Share share)
      : context_(context), file_(file), rank_(rank), share_(share) {}

  llvm::Expected<RankOptimizer> Read(const Value& optimizer) {
    const ValuePtr inner = pytorch::Find(optimizer, "optimizer");  // Absent in a training in float32.
    const Value& stepped = inner ? *inner : optimizer;
    UCP_ASSIGN_OR_RETURN(Common common, KeepGroups(context_, file_, stepped));
    const Dealt dealt(common, rank_, share_);
    unread_ = dealt.unread();
    TakeStates(stepped);
    for (const std::string_view name : {"fp32_from_fp16_params", "fp32_from_fp16"}) {
      if (!masters_) masters_ = pytorch::Find(optimizer, name);
    }
    for (std::size_t g = 0; unread_.empty() && g < common.groups.size(); ++g) {
      UCP_RETURN_IF_ERROR(ReadGroup(*common.groups[g], g, dealt.OfGroup(g)));
    }
    common.common_step = step_;
    return RankOptimizer{DealIntoGroups(common, {}).groups, std::move(unread_), std::move(without_step_)};
  }

 private:
  void TakeStates(const Value& optimizer) {
    const ValuePtr states = pytorch::Find(optimizer, "state");
    const auto* entries = states ? pytorch::Entries(*states) : nullptr;
    if (entries == nullptr) return;
    for (const pytorch::Entry& entry : *entries) {
      if (const auto id = pytorch::AsInteger(*entry.key)) states_[*id] = entry.value;
    }
  }

  llvm::Error ReadGroup(const Value& group, std::size_t number, const std::vector<Dealt::Place>& places) {
    const ValuePtr said = pytorch::Find(group, "params");
    const auto ids = said ? pytorch::AsIntegers(*said) : std::nullopt;
    if (!ids || ids->size() != places.size()) {
      unread_ = fmt::format("group {} of the optimizer in `{}` lists {} parameters, and the model has {} for it",
                            number, file_.path, ids ? ids->size() : 0, places.size());
      return llvm::Error::success();
    }
    const auto* all = masters_ ? pytorch::Items(*masters_) : nullptr;
    const auto* masters = all && number < all->size() ? pytorch::Items(*(*all)[number]) : nullptr;
    std::size_t next = 0;  // Of the masters, which weights of float32 have none of.
    for (std::size_t i = 0; unread_.empty() && i < places.size(); ++i) {
      const LocalTensor& tensor = rank_.parts[places[i].part].tensors[places[i].tensor];
      std::vector<StateBuffer>& states = rank_.parts[places[i].part].states[places[i].tensor];
      if (tensor.place.dtype == DType::kFloat32) {
        AddState(kMasterState, tensor.place, tensor, states);
      } else if (masters != nullptr && next < masters->size()) {
        TakeState(kMasterState, *(*masters)[next++], tensor, states);
      } else {
        unread_ = fmt::format("`{}` has no master of `{}`", file_.path, tensor.name);
      }
      UCP_RETURN_IF_ERROR(ReadStatesOf((*ids)[i], tensor, states));
      const bool has_step =
          pytorch::Find(group, kStep) || !unread_.empty() || pytorch::Find(*states_[(*ids)[i]], kStep);
      if (!has_step) without_step_ = fmt::format("the state of `{}` in `{}` has no `step`", tensor.name, file_.path);
    }
    return llvm::Error::success();
  }

  llvm::Error ReadStatesOf(std::int64_t id, const LocalTensor& tensor, std::vector<StateBuffer>& states) {
    const auto found = states_.find(id);
    const auto* entries = found == states_.end() ? nullptr : pytorch::Entries(*found->second);
    if (entries == nullptr) {
      unread_ = fmt::format("`{}` has no state of parameter {}, which is `{}`", file_.path, id, tensor.name);
      return llvm::Error::success();
    }
    for (const pytorch::Entry& entry : *entries) {
      const std::string_view state = pytorch::AsText(*entry.key).value_or("");
      if (state == kStep) {
        UCP_RETURN_IF_ERROR(TakeStep(entry.value));
      } else {
        TakeState(StateCalled(state), *entry.value, tensor, states);
      }
    }
    std::ranges::sort(states, {}, &StateBuffer::state);
    return llvm::Error::success();
  }

  llvm::Error TakeStep(const ValuePtr& value) {
    UCP_ASSIGN_OR_RETURN(const ValuePtr step, context_.archives.Keep(file_, value, "`step`"));
    if (!step_) step_ = step;
    return CheckSameStep(context_.training, step_, file_.path, step, file_.path);
  }

  void TakeState(const std::string& state, const Value& value, const LocalTensor& tensor,
                 std::vector<StateBuffer>& states) {
    const auto* stored = value.As<pytorch::Tensor>();
    if (stored == nullptr || stored->sizes != tensor.place.sizes) {
      unread_ = fmt::format("the state `{}` of `{}` in `{}` is not a tensor of [{}]", state, tensor.name, file_.path,
                            fmt::join(tensor.place.sizes, ", "));
      return;
    }
    AddState(state, context_.archives.PlaceOf(file_, *stored), tensor, states);
  }

  void AddState(const std::string& state, const TensorPlace& place, const LocalTensor& tensor,
                std::vector<StateBuffer>& states) {
    const bool is_twice = std::ranges::find(states, state, &StateBuffer::state) != states.end();
    if (is_twice || !place.strides.empty()) {
      unread_ = fmt::format("the state `{}` of `{}` in `{}` {}", state, tensor.name, file_.path,
                            is_twice ? "stands twice" : "is not stored row by row");
      return;
    }
    states.push_back(StateOf(context_.storage, state, place, 0, place.elements));
  }

  const OptimizerContext& context_;
  const SourceArchive& file_;
  RankOfModel& rank_;
  const Share share_;
  std::map<std::int64_t, ValuePtr> states_;  // By the numbers of parameters.
  ValuePtr masters_;
  ValuePtr step_;
  std::string unread_;
  std::string without_step_;
};

class DistributedReader {
 public:
  DistributedReader(const OptimizerContext& context, const SourceArchive& states, RankOfModel& rank, Share share)
      : context_(context), states_(states), rank_(rank), share_(share) {}

  // Returns why they are not read, as a sentence; empty if they are. Each part of the model has a buffer of its own.
  // Fails (kBadData) for states that the rank does not save.
  llvm::Expected<std::string> Read() {
    for (const std::string_view name : {"ddp_num_buckets", "num_distributed_optimizer_instances"}) {
      if (context_.arguments.Number(std::string(name)).value_or(1) == 1) continue;
      return fmt::format("the places of its parameters are not known with `args.{}`", name);
    }
    const auto* optimizers = pytorch::Items(states_.root());
    const std::size_t count = optimizers == nullptr ? 1 : optimizers->size();
    if (count != share_.count) {
      return fmt::format("`{}` has the states of {} optimizers, and the rank's file has {}", states_.path, count,
                         share_.count);
    }
    const Value& root = optimizers == nullptr ? states_.root() : *(*optimizers)[share_.number];
    const bool lacks_rest = share_.count == 2 && share_.number == 0 && rank_.folder.expert_rank > 0;
    if (lacks_rest) {
      if (root.is_none()) return "";
      return Fail(ErrorCode::kBadData,
                  "`{}` has states that expert-parallel rank 0 alone saves, so it is a copy of another rank's file; "
                  "copy the whole folder of the save again",
                  states_.path);
    }
    const ValuePtr are_joined = pytorch::Find(root, "buckets_coalesced");
    if (!are_joined || !pytorch::AsBool(*are_joined).value_or(false)) {
      return fmt::format("`{}` does not say that its buckets are joined (`buckets_coalesced`)", states_.path);
    }
    std::int64_t buffer = 0;
    for (std::size_t part = 0; part < rank_.parts.size(); ++part) {
      const std::vector<std::size_t> own = TensorsOf(part);
      if (own.empty()) continue;
      std::string unread = ReadPart(part, own, buffer++, root);
      if (!unread.empty()) return unread;
    }
    return "";
  }

 private:
  std::vector<std::size_t> TensorsOf(std::size_t part) const {
    std::vector<std::size_t> own;
    const std::vector<LocalTensor>& tensors = rank_.parts[part].tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (share_.Has(tensors[t])) own.push_back(t);
    }
    return own;
  }

  // `own`: the part's tensors that are in the buffer.
  std::string ReadPart(std::size_t part, const std::vector<std::size_t>& own, std::int64_t buffer, const Value& root) {
    const ValuePtr buffers = pytorch::Find(root, buffer);
    const auto* by_dtype = buffers ? pytorch::Entries(*buffers) : nullptr;
    if (by_dtype == nullptr || by_dtype->size() != 1) {
      return fmt::format("`{}` has {} buffers of part {} of the model, and one of them is read", states_.path,
                         by_dtype ? by_dtype->size() : 0, part);
    }
    const auto* vectors = pytorch::Entries(*by_dtype->front().value);
    if (vectors == nullptr) return fmt::format("`{}` has no states of part {} of the model", states_.path, part);
    const Places places = PlacesOf(part, own);
    std::set<std::string> seen;  // `param` and `master_param` are one.
    for (const pytorch::Entry& entry : *vectors) {
      const std::string state = StateCalled(pytorch::AsText(*entry.key).value_or(""));
      if (state == "numel_unpadded") continue;
      if (!seen.insert(state).second) return fmt::format("`{}` has the state `{}` twice", states_.path, state);
      std::string unread = ReadVector(state, *entry.value, places, own, rank_.parts[part]);
      if (!unread.empty()) return unread;
    }
    if (!seen.contains(kMasterState)) return fmt::format("`{}` has no masters (`param`)", states_.path);
    for (const std::size_t tensor : own) std::ranges::sort(rank_.parts[part].states[tensor], {}, &StateBuffer::state);
    return "";
  }

  struct Places {
    std::vector<std::int64_t> begins;  // Of the tensors in the buffer.
    std::int64_t elements = 0;         // Of the buffer.
  };

  std::string ReadVector(const std::string& state, const Value& value, const Places& places,
                         const std::vector<std::size_t>& own, ModelPart& part) {
    const auto* stored = value.As<pytorch::Tensor>();
    if (stored == nullptr || stored->sizes.size() != 1 || stored->sizes.front() != places.elements) {
      return fmt::format(
          "the state `{}` in `{}` is {}, and the model's parameters fill {} elements", state, states_.path,
          stored == nullptr ? "not a tensor" : fmt::format("[{}]", fmt::join(stored->sizes, ", ")), places.elements);
    }
    const TensorPlace place = context_.archives.PlaceOf(states_, *stored);
    if (!place.strides.empty()) return fmt::format("the state `{}` in `{}` is not one vector", state, states_.path);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::int64_t elements = part.tensors[own[i]].place.elements;
      part.states[own[i]].push_back(StateOf(context_.storage, state, place, places.begins[i], elements));
    }
    return "";
  }

  Places PlacesOf(std::size_t part, const std::vector<std::size_t>& own) const {
    std::vector<std::int64_t> counts;
    std::vector<bool> are_alone;
    const bool is_first = rank_.folder.stage == 0 && part == 0;
    const bool is_last = rank_.folder.stage == context_.last_stage && part + 1 == rank_.parts.size();
    for (const std::size_t t : own) {
      const LocalTensor& tensor = rank_.parts[part].tensors[t];
      counts.push_back(tensor.place.elements);
      const bool is_end = (is_first && tensor.name == kWordEmbeddings) || (is_last && tensor.name == kHead);
      are_alone.push_back(is_end && AreEndsTied(context_.arguments));
    }
    const auto most = is_first ? context_.arguments.ElementsOfBucket() : std::nullopt;
    const Buckets buckets = DealIntoBuckets(counts, are_alone, most);
    std::vector<std::int64_t> begins = {0};
    for (const std::int64_t size : buckets.sizes) begins.push_back(begins.back() + size);
    Places places{{}, begins.back()};
    for (const PlaceInBuckets& place : buckets.places) places.begins.push_back(begins[place.bucket] + place.begin);
    return places;
  }

  const OptimizerContext& context_;
  const SourceArchive& states_;
  RankOfModel& rank_;
  const Share share_;
};

void ForgetStates(RankOfModel& rank) {
  for (ModelPart& part : rank.parts) part.states.clear();
}

}  // namespace

std::vector<ValuePtr> OptimizersIn(const ValuePtr& entry) {
  const auto* items = pytorch::Items(*entry);
  return items == nullptr ? std::vector<ValuePtr>{entry} : std::vector<ValuePtr>(items->begin(), items->end());
}

llvm::Expected<RankOptimizer> ReadPlainOptimizers(const OptimizerContext& context, const SourceArchive& file,
                                                  const std::vector<ValuePtr>& optimizers, RankOfModel& rank) {
  RankOptimizer all;
  for (ModelPart& part : rank.parts) part.states.assign(part.tensors.size(), {});
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    PlainReader reader(context, file, rank, {i, optimizers.size()});
    UCP_ASSIGN_OR_RETURN(RankOptimizer read, reader.Read(*optimizers[i]));
    all.groups.insert(all.groups.end(), read.groups.begin(), read.groups.end());
    if (all.unread.empty()) all.unread = std::move(read.unread);
    if (!read.without_step.empty()) all.without_step = std::move(read.without_step);
  }
  if (!all.unread.empty()) ForgetStates(rank);
  return all;
}

llvm::Expected<RankOptimizer> ReadDistributedOptimizers(const OptimizerContext& context, const SourceArchive& file,
                                                        const std::vector<ValuePtr>& optimizers,
                                                        const SourceArchive& states, RankOfModel& rank) {
  RankOptimizer all;
  for (ModelPart& part : rank.parts) part.states.assign(part.tensors.size(), {});
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    const ValuePtr inner = pytorch::Find(*optimizers[i], "optimizer");
    UCP_ASSIGN_OR_RETURN(const Common common, KeepGroups(context, file, inner ? *inner : *optimizers[i]));
    const std::vector<OptimizerGroup> groups = DealIntoGroups(common, {}).groups;
    all.groups.insert(all.groups.end(), groups.begin(), groups.end());
    UCP_ASSIGN_OR_RETURN(std::string unread, DistributedReader(context, states, rank, {i, optimizers.size()}).Read());
    if (all.unread.empty()) all.unread = std::move(unread);
  }
  if (!all.unread.empty()) ForgetStates(rank);
  return all;
}

}  // namespace ucp::megatron
