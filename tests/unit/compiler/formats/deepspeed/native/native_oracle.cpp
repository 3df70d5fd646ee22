#include "tests/unit/compiler/formats/deepspeed/native/native_oracle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ucp::deepspeed {
namespace {

const std::vector<std::string> kStates = {"exp_avg", "exp_avg_sq", "fp32", "weight"};

std::int64_t Product(const std::vector<std::int64_t>& sizes) {
  std::int64_t product = 1;
  for (std::int64_t size : sizes) product *= size;
  return product;
}

Elements Slice(const Elements& list, std::int64_t begin, std::int64_t end) {
  const auto at = [&](std::int64_t i) { return list.begin() + std::clamp<std::int64_t>(i, 0, std::ssize(list)); };
  return {at(begin), at(std::max(begin, end))};
}

void Append(Elements& list, const Elements& more) { list.insert(list.end(), more.begin(), more.end()); }

// Until the length divides.
void Pad(Elements& list, std::int64_t multiple) {
  while (std::ssize(list) % multiple != 0) list.push_back(0);
}

// Fills the maps of an oracle, one tensor rank after the other.
class Account {
 public:
  Account(const NativeModel& model, std::int64_t t, NativeOracle& oracle) : model_(model), t_(t), oracle_(oracle) {}

  void AddModelFiles() {
    if (model_.stage < 3) return AddModelFile(fmt::format("tag/mp_rank_{:02}_model_states.pt", t_), 0);
    for (std::int64_t d = 0; d < model_.dp; ++d) {
      AddModelFile(fmt::format("tag/zero_pp_rank_{}_mp_rank_{:02}_model_states.pt", d, t_), d);
    }
  }

  // Stages 1 and 2: concatenate, pad, cut.
  void AddFlatGroups() {
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      const std::vector<std::size_t> order = Dealt(model_.groups[g]);
      for (const char* state : {"exp_avg", "exp_avg_sq", "fp32"}) {
        Elements flat;
        std::vector<std::string> alignment;
        std::vector<std::pair<std::int64_t, std::size_t>> begins;
        for (std::size_t member : order) {
          begins.emplace_back(std::ssize(flat), member);
          Append(flat, Of(member, state));
          const std::int64_t end = std::ssize(flat);
          if (model_.alignment && member != order.back()) {
            // The next parameter begins at a multiple of 16 bytes.
            const std::int64_t length = end - begins.back().first;
            for (std::int64_t n = length; n * ItemBytes(model_.dtype) % 16 != 0; ++n) flat.push_back(0);
          }
          alignment.push_back(std::to_string(std::ssize(flat) - end));
        }
        const std::int64_t real = std::ssize(flat);
        Pad(flat, 2 * model_.dp);
        const std::int64_t size = std::ssize(flat) / model_.dp;
        for (std::int64_t d = 0; d < model_.dp; ++d) {
          const bool is_master = std::string(state) == "fp32";
          const bool is_short = (is_master || model_.elastic) && !model_.bf16_optimizer;
          const std::int64_t end = (d + 1) * size;
          oracle_.tensors[FlatPlace(d, g, state)] = Slice(flat, d * size, is_short ? std::min(end, real) : end);
          if (!is_master) continue;
          const std::int64_t padding = std::clamp<std::int64_t>(end - real, 0, size);
          const std::int64_t told = d + 1 == model_.dp ? std::ssize(flat) - real : 0;
          paddings_[d].push_back(std::to_string(model_.bf16_optimizer ? told : padding));
          alignments_[d].push_back(fmt::format("[{}]", fmt::join(alignment, ", ")));
          counts_[d].push_back(std::to_string(model_.dp));
          std::vector<std::string> mapping;
          for (const auto& [begin, member] : begins) {
            const std::int64_t from = std::max(begin, d * size);
            const std::int64_t to = std::min(begin + std::ssize(Of(member, state)), end);
            if (from >= to) continue;
            mapping.push_back(fmt::format("{}: {} at {}", Name(member), to - from, from - d * size));
          }
          mappings_[d].push_back(fmt::format("{{{}}}", fmt::join(mapping, ", ")));
        }
      }
    }
    for (std::int64_t d = 0; d < model_.dp; ++d) {
      const std::string place = OptimizerFile(d) + "/optimizer_state_dict/";
      oracle_.texts[place + "group_paddings"] = fmt::format("[{}]", fmt::join(paddings_[d], ", "));
      oracle_.texts[place + "partition_count"] = fmt::format("[{}]", fmt::join(counts_[d], ", "));
      oracle_.texts[place + "param_slice_mappings"] = fmt::format("[{}]", fmt::join(mappings_[d], ", "));
      if (model_.bf16_optimizer) continue;
      oracle_.texts[place + "param_alignment_paddings"] = fmt::format("[{}]", fmt::join(alignments_[d], ", "));
    }
  }

  // Stage 3: pad and cut every parameter, concatenate the parts of a sub-group.
  void AddSubGroups() {
    for (std::int64_t d = 0; d < model_.dp; ++d) {
      std::size_t s = 0;
      for (const std::vector<std::size_t>& sub_group : SubGroups()) {
        const std::string place = OptimizerFile(d) + "/optimizer_state_dict/";
        for (const char* state : {"exp_avg", "exp_avg_sq"}) {
          oracle_.tensors[fmt::format("{}optimizer_state_dict/state/{}/{}", place, s, state)] =
              Parts(sub_group, state, d);
        }
        oracle_.tensors[fmt::format("{}fp32_flat_groups/{}", place, s++)] = Parts(sub_group, "fp32", d);
      }
    }
  }

  // Stage 0: nothing is cut.
  void AddWhole() {
    const std::string file = fmt::format("tag/mp_rank_{:02}_model_states.pt/optimizer/", t_);
    const bool is_wrapped = model_.dtype != DType::kFloat32;
    std::size_t number = 0;
    for (std::size_t g = 0; g < model_.groups.size(); ++g) {
      std::vector<std::vector<std::size_t>> stepped;  // Together.
      for (std::size_t member : model_.groups[g]) stepped.push_back({member});
      if (is_wrapped && model_.fused) stepped = {model_.groups[g]};
      for (std::size_t i = 0; i < stepped.size(); ++i, ++number) {
        auto all = [&](const std::string& state) {
          Elements list;
          for (std::size_t member : stepped[i]) Append(list, Of(member, state));
          return list;
        };
        for (const char* state : {"exp_avg", "exp_avg_sq"}) {
          const char* inner = is_wrapped ? "optimizer_state_dict/" : "";
          oracle_.tensors[fmt::format("{}{}state/{}/{}", file, inner, number, state)] = all(state);
        }
        if (!is_wrapped) continue;
        const std::string place =
            model_.fused ? fmt::format("fp32_groups_flat/{}", g) : fmt::format("fp32_groups/{}/{}", g, i);
        oracle_.tensors[file + place] = all("fp32");
        if (model_.fused) continue;
        oracle_.texts[file + place] = fmt::format("float32 [{}]", fmt::join(ShapeOf(stepped[i].front()), ", "));
      }
    }
  }

 private:
  const std::string& Name(std::size_t tensor) const { return model_.tensors[tensor].name; }
  Elements Of(std::size_t tensor, const std::string& state) const { return model_.Local(Name(tensor), state, t_); }
  std::vector<std::int64_t> ShapeOf(std::size_t tensor) const { return model_.tensors[tensor].LocalShape(model_.tp); }

  std::string OptimizerFile(std::int64_t d) const {
    return fmt::format("tag/{}zero_pp_rank_{}_mp_rank_{:02}_optim_states.pt",
                       model_.dtype == DType::kBFloat16 ? "bf16_" : "", d, t_);
  }
  std::string FlatPlace(std::int64_t d, std::size_t g, const std::string& state) const {
    const std::string place = OptimizerFile(d) + "/optimizer_state_dict/";
    if (state == "fp32") return fmt::format("{}single_partition_of_fp32_groups/{}", place, g);
    return fmt::format("{}base_optimizer_state/{}{}/{}", place, model_.elastic ? "" : "state/", g, state);
  }

  // A card for each partition in turn, and then the hands one after the other.
  std::vector<std::size_t> Dealt(const std::vector<std::size_t>& group) const {
    if (!model_.round_robin) return group;
    std::vector<std::vector<std::size_t>> hands(static_cast<std::size_t>(model_.dp));
    for (std::size_t i = 0; i < group.size(); ++i) hands[i % hands.size()].push_back(group[i]);
    std::vector<std::size_t> dealt;
    for (const auto& hand : hands) dealt.insert(dealt.end(), hand.begin(), hand.end());
    return dealt;
  }

  // A sub-group is closed when its parts have as many elements as asked for.
  std::vector<std::vector<std::size_t>> SubGroups() const {
    std::vector<std::vector<std::size_t>> sub_groups;
    for (const std::vector<std::size_t>& group : model_.groups) {
      std::vector<std::size_t> open;
      std::int64_t elements = 0;
      for (std::size_t member : group) {
        open.push_back(member);
        elements += std::ssize(Part(Of(member, "fp32"), 0));
        if (elements < model_.sub_group_size && member != group.back()) continue;
        sub_groups.push_back(std::move(open));
        open.clear();
        elements = 0;
      }
    }
    return sub_groups;
  }

  Elements Part(Elements whole, std::int64_t d) const {
    Pad(whole, model_.dp);
    const std::int64_t size = std::ssize(whole) / model_.dp;
    return Slice(whole, d * size, (d + 1) * size);
  }
  Elements Parts(const std::vector<std::size_t>& sub_group, const std::string& state, std::int64_t d) const {
    Elements parts;
    for (std::size_t member : sub_group) Append(parts, Part(Of(member, state), d));
    return parts;
  }

  void AddModelFile(const std::string& file, std::int64_t d) {
    const bool is_own_master = model_.stage == 0 && model_.dtype == DType::kFloat32;
    std::vector<std::string> frozen_shapes;
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      const TensorKind kind = model_.tensors[i].kind;
      const std::string place = fmt::format("{}/module/{}", file, Name(i));
      const bool is_elsewhere = model_.stage == 3 && kind != TensorKind::kBuffer;
      const bool is_trained = kind == TensorKind::kParameter;
      oracle_.tensors[place] = is_elsewhere ? Elements() : Of(i, is_trained && is_own_master ? "fp32" : "weight");
      oracle_.texts[place] = fmt::format("{} [{}]", ucp::Name(is_trained ? model_.dtype : DType::kFloat32),
                                         is_elsewhere ? "0" : fmt::to_string(fmt::join(ShapeOf(i), ", ")));
      if (kind != TensorKind::kFrozen || model_.stage < 2) continue;
      const std::string fragment = fmt::format("{}/frozen_param_fragments/{}", file, Name(i));
      oracle_.tensors[fragment] = model_.stage == 3 ? Part(Of(i, "weight"), d) : Of(i, "weight");
      frozen_shapes.push_back(fmt::format("{}: [{}]", Name(i), fmt::join(ShapeOf(i), ", ")));
    }
    if (model_.stage >= 2) {
      oracle_.texts[file + "/frozen_param_shapes"] = fmt::format("{{{}}}", fmt::join(frozen_shapes, ", "));
    }
    std::vector<std::string> groups;
    for (const std::vector<std::size_t>& group : model_.stage == 3 ? SubGroups() : model_.groups) {
      std::vector<std::string> shapes;
      for (std::size_t member : model_.stage == 3 ? group : Dealt(group)) {
        shapes.push_back(fmt::format("{}: [{}]", Name(member), fmt::join(ShapeOf(member), ", ")));
      }
      groups.push_back(fmt::format("{{{}}}", fmt::join(shapes, ", ")));
    }
    oracle_.texts[file + "/param_shapes"] = model_.stage == 0 ? "None" : fmt::format("[{}]", fmt::join(groups, ", "));
  }

  const NativeModel& model_;
  const std::int64_t t_;
  NativeOracle& oracle_;
  std::map<std::int64_t, std::vector<std::string>> paddings_, alignments_, counts_, mappings_;  // By partition.
};

}  // namespace

std::vector<std::int64_t> NativeTensor::LocalShape(std::int64_t tp) const {
  std::vector<std::int64_t> local = shape;
  if (is_cut) local.front() /= tp;
  return local;
}

std::string NativeModel::Settings() const {
  std::string text = fmt::format("tp={},dp={},zero={},dtype={}", tp, dp, stage,
                                 dtype == DType::kFloat32   ? "fp32"
                                 : dtype == DType::kFloat16 ? "fp16"
                                                            : "bf16");
  if (stage == 3) text += fmt::format(",sub_group_size={}", sub_group_size);
  if (stage == 0 && dtype != DType::kFloat32) text += fused ? ",optimizer=fused" : ",optimizer=unfused";
  if (stage == 1 || stage == 2) {
    text += fmt::format(",optimizer={},round_robin={},alignment={},elastic={}", bf16_optimizer ? "bf16" : "zero",
                        round_robin, alignment, elastic);
  }
  return text;
}

Elements NativeModel::Local(const std::string& tensor, const std::string& state, std::int64_t t) const {
  std::int64_t next = 1;  // The element's number: those of the tensors and states before it are others.
  for (const NativeTensor& candidate : tensors) {
    const std::int64_t count = Product(candidate.shape);
    for (const std::string& name : kStates) {
      if (candidate.name == tensor && name == state) {
        Elements whole;
        for (std::int64_t i = 0; i < count; ++i) whole.push_back(next + i);
        if (!candidate.is_cut) return whole;
        return Slice(whole, t * count / tp, (t + 1) * count / tp);
      }
      next += count;
    }
  }
  return {};
}

NativeOracle::NativeOracle(const NativeModel& model) {
  for (std::int64_t t = 0; t < model.tp; ++t) {
    Account account(model, t, *this);
    account.AddModelFiles();
    if (model.stage == 0) account.AddWhole();
    if (model.stage == 1 || model.stage == 2) account.AddFlatGroups();
    if (model.stage == 3) account.AddSubGroups();
  }
}

}  // namespace ucp::deepspeed
