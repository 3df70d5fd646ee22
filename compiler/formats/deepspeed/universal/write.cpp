// The folder, in the order in which it is laid out (README.md says who reads what):
//
//   latest_universal                                    the folder's name
//   <tag>_universal/zero/<parameter>/<state>.pt         {'param': tensor, how to cut it}
//   <tag>_universal/zero/<parameter>/step.pt            the step, as the optimizer keeps it
//   <tag>_universal/zero/optimizer_state.pt             hyper-parameters, loss scaler
//   <tag>_universal/mp_rank_XX_model_states.pt          counters, client state; frozen tensors and buffers in XX = 00
//   <tag>_universal/zero_pp_rank_0_mp_rank_XX_model_states.pt  the same without tensors, for stage 3
#include "compiler/formats/deepspeed/universal/write.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/common/expert_names.h"
#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/universal/cut_rules.h"
#include "compiler/formats/deepspeed/universal/expert_files.h"
#include "compiler/formats/deepspeed/universal/loader.h"
#include "compiler/formats/deepspeed/universal/training_files.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp::universal {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeText;
using pytorch::ValuePtr;

constexpr std::size_t kMaxNameBytes = 255;

// Names become folders and files, and come from a checkpoint that anyone may have written.
llvm::Error CheckFileName(const std::string& name, std::string_view what) {
  const bool is_plain = !name.empty() && name != "." && name != ".." && name.size() <= kMaxNameBytes - 3 &&
                        name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  if (is_plain) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported, "the {} `{}` cannot be the name of a file in a universal folder", what, name);
}

std::string TagOf(const TrainingState& training) {
  constexpr std::string_view kSuffix = "_universal";
  std::string tag = training.tag;
  if (!tag.ends_with(kSuffix)) tag += kSuffix;
  return tag;
}

std::int64_t ElementsOf(const LogicalTensor& tensor) {  // CheckTensor has seen that it does not overflow.
  std::int64_t elements = 1;
  for (std::int64_t size : tensor.shape) elements *= size;
  return elements;
}

bool IsTrained(const LogicalTensor& tensor) { return tensor.kind == TensorKind::kParameter; }

class Writer {
 public:
  Writer(std::span<const LogicalTensor> tensors, const TrainingState& training, const Loader& loader)
      : tensors_(tensors), training_(training), loader_(loader), folder_(TagOf(training)) {}

  llvm::Expected<TargetFiles> Run() {
    UCP_RETURN_IF_ERROR(CheckFileName(folder_, "tag"));
    target_.format = "universal";
    if (loader_.ep > 1) target_.mesh.axes = {{"ep", loader_.ep}};
    target_.directories = {folder_, folder_ + "/zero"};
    AddFile(target_, "latest_universal", folder_);
    IndexGroups();
    for (const LogicalTensor& tensor : tensors_) {
      UCP_RETURN_IF_ERROR(CheckInterrupted());
      UCP_RETURN_IF_ERROR(CheckTensor(tensor));
      if (IsTrained(tensor)) UCP_RETURN_IF_ERROR(AddParameter(tensor));
    }
    AddFile(target_, folder_ + "/zero/optimizer_state.pt", ComposeOptimizerState(training_));
    AddModelStates();
    RemarkOnModule();
    RemarkOnScalars();
    return std::move(target_);
  }

 private:
  void IndexGroups() {
    for (std::size_t g = 0; g < training_.groups.size(); ++g) {
      for (const std::string& name : training_.groups[g].parameters) group_of_.emplace(name, g);
    }
    // A tensor can be known to the optimizer by its other name.
    for (const auto& [alias, canonical] : training_.aliases) {
      if (auto group = group_of_.find(alias); group != group_of_.end()) group_of_.emplace(canonical, group->second);
      if (auto group = group_of_.find(canonical); group != group_of_.end()) group_of_.emplace(alias, group->second);
    }
  }

  llvm::Error CheckTensor(const LogicalTensor& tensor) const {
    for (const LogicalTensor::State& state : tensor.states) {
      std::optional<std::int64_t> bytes = ItemBytes(state.dtype);
      for (std::int64_t size : tensor.shape) bytes = bytes ? CheckedMultiply(*bytes, size) : bytes;
      if (!bytes) {
        return Fail(ErrorCode::kUsage, "`{}` of `{}` has more than 2^63 bytes", state.name, tensor.name);
      }
    }
    return llvm::Error::success();
  }

  llvm::Error AddParameter(const LogicalTensor& tensor) {
    UCP_RETURN_IF_ERROR(CheckFileName(tensor.name, "parameter"));
    if (tensor.name == "optimizer_state.pt") {
      return Fail(ErrorCode::kUnsupported, "a parameter named `{}` cannot stand in a universal folder", tensor.name);
    }
    auto group = group_of_.find(tensor.name);
    if (group == group_of_.end()) {
      return Fail(ErrorCode::kBadData, "the parameter `{}` is in none of the optimizer's {} groups", tensor.name,
                  training_.groups.size());
    }
    UCP_ASSIGN_OR_RETURN(const StackedExperts stack, StackExperts(tensor, tensors_, loader_.ep));
    if (stack.tensors.empty()) return llvm::Error::success();  // Beside that of the first expert rank.
    const std::string folder = folder_ + "/zero/" + stack.name;
    target_.directories.push_back(folder);
    const std::int64_t elements = ElementsOf(tensor) * std::ssize(stack.tensors);
    const std::vector<std::int64_t> shape = loader_.bare_states ? std::vector{elements} : stack.Shape();
    const std::vector<Entry> entries = EntriesBeside(stack);
    BufferSet set;
    for (const LogicalTensor::State& state : tensor.states) {
      UCP_RETURN_IF_ERROR(CheckFileName(state.name, "optimizer state"));
      if (state.name == "step" || state.name == kWeightState) {
        return Fail(ErrorCode::kUnsupported,
                    "`{}` has a state `{}`, which a universal folder does not hold as a tensor", tensor.name,
                    state.name);
      }
      const SharedArchive& file = StateFile(state.dtype, shape, entries);
      const RecordId record = AddFile(target_, folder + "/" + state.name + ".pt", file).front();
      set.push_back({state.name, AddBuffer(elements, state, record)});
    }
    const BufferSetId states = target_.storage.Add(std::move(set));
    for (std::size_t i = 0; i < stack.tensors.size(); ++i) AddShard(*stack.tensors[i], i, states);
    if (const ValuePtr& step = training_.groups[group->second].step) {
      AddFile(target_, folder + "/step.pt", StepFile(group->second, step));
    }
    return llvm::Error::success();
  }

  // The entries beside the parameter in each of its states' files.
  std::vector<Entry> EntriesBeside(const StackedExperts& stack) const {
    const LogicalTensor& tensor = *stack.tensors.front();
    std::vector<Entry> entries;
    if (loader_.bare_states) return entries;
    for (Entry& entry : CutEntries(tensor)) entries.push_back(std::move(entry));
    const bool is_fused = deepspeed::StateOf(training_).fused_experts.contains(tensor.name);
    for (Entry& entry : is_fused ? FusedExpertEntries(tensor) : ExpertEntries(stack)) {
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  // A model has thousands of parameters of few shapes. The files of one shape with the same entries are one file, but
  // for the elements, which come later.
  const SharedArchive& StateFile(DType dtype, const std::vector<std::int64_t>& shape,
                                 const std::vector<Entry>& entries) {
    const std::string what = entries.empty() ? "" : pytorch::Print(*MakeDict(entries));
    auto [known, is_new] =
        state_files_.try_emplace(fmt::format("{} [{}] {}", Name(dtype), fmt::join(shape, ","), what));
    if (!is_new) return known->second;
    ArchiveComposer composer(training_);
    ValuePtr content = composer.AddTensor(dtype, shape);
    if (!loader_.bare_states) {
      std::vector<Entry> all = {{MakeText("param"), std::move(content)}};
      all.insert(all.end(), entries.begin(), entries.end());
      content = MakeDict(std::move(all));
    }
    known->second = Share(target_, composer.Compose(content));
    return known->second;
  }

  BufferId AddBuffer(std::int64_t elements, const LogicalTensor::State& state, RecordId record) {
    Buffer buffer;
    buffer.dtype = state.dtype;
    buffer.part_elements = elements;
    buffer.parts.push_back({record, 0, elements});
    return target_.storage.Add(std::move(buffer));
  }

  // `place` is that of an expert rank among those that share the file.
  void AddShard(const LogicalTensor& tensor, std::size_t place, BufferSetId states) {
    Shard shard;
    shard.tensor = tensor.name;
    shard.kind = tensor.kind;
    shard.shape = tensor.shape;
    if (place > 0) shard.coordinate.at["ep"] = static_cast<std::int64_t>(place);
    shard.base = static_cast<std::int64_t>(place) * ElementsOf(tensor);
    shard.states = states;
    target_.storage.shards.push_back(std::move(shard));
  }

  // All parameters of a group have the same file.
  const SharedArchive& StepFile(std::size_t group, const ValuePtr& step) {
    auto [entry, added] = step_files_.try_emplace(group);
    if (added) {
      ArchiveComposer composer(training_);
      entry->second = Share(target_, composer.Compose(composer.AddValue(step)));
    }
    return entry->second;
  }

  void AddModelStates() {
    for (std::int64_t rank = 0; rank < loader_.ranks; ++rank) {
      const std::string name = fmt::format("mp_rank_{:02}_model_states.pt", rank);
      ComposedModelStates states = ComposeModelStates(tensors_, training_, loader_, rank);
      std::vector<RecordId> records = AddFile(target_, folder_ + "/" + name, states.archive);
      for (std::size_t i = 0; i < states.held.size(); ++i) {
        const LogicalTensor& tensor = *states.held[i];
        const LogicalTensor::State& state = tensor.states.front();
        BufferSet set{{state.name, AddBuffer(ElementsOf(tensor), state, records[i])}};
        AddShard(tensor, 0, target_.storage.Add(std::move(set)));
      }
      AddFile(target_, folder_ + "/zero_pp_rank_0_" + name, states.without_tensors);
    }
  }

  // The engine loads what it trains and nothing else; whoever resumes must know what it leaves at its initial value.
  void RemarkOnModule() {
    constexpr std::size_t kMostNames = 12;
    std::vector<std::string> names;
    for (const LogicalTensor& tensor : tensors_) {
      if (!IsTrained(tensor)) names.push_back(fmt::format("`{}`", tensor.name));
    }
    if (names.empty()) return;
    const std::size_t shown = std::min(names.size(), kMostNames);
    target_.remarks.push_back(
        fmt::format("DeepSpeed does not load frozen parameters and buffers from a universal folder. After "
                    "load_checkpoint call restore_module() of examples/restore_module.py for {}{}",
                    fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                    shown < names.size() ? fmt::format(" and {} more", names.size() - shown) : ""));
  }

  // The engine cuts whatever it loads from here along a dimension, even into one part.
  void RemarkOnScalars() {
    auto scalar = std::find_if(tensors_.begin(), tensors_.end(),
                               [](const LogicalTensor& tensor) { return tensor.shape.empty() && IsTrained(tensor); });
    if (scalar == tensors_.end()) return;
    target_.remarks.push_back(fmt::format(
        "`{}` has no dimensions, and DeepSpeed does not load such a parameter from a universal folder; make "
        "native files (`deepspeed:…`) or call ucp.deepspeed.load_checkpoint()",
        scalar->name));
  }

  std::span<const LogicalTensor> tensors_;
  const TrainingState& training_;
  const Loader loader_;
  const std::string folder_;
  TargetFiles target_;
  std::unordered_map<std::string, std::size_t> group_of_;
  std::unordered_map<std::string, SharedArchive> state_files_;
  std::unordered_map<std::size_t, SharedArchive> step_files_;
};

// The facts that only the tensors say of an engine with AutoEP beside tensor parallelism.
llvm::Error CheckSpreadExperts(std::span<const LogicalTensor> tensors, const TrainingState& training,
                               const Loader& loader) {
  if (!loader.folding) return llvm::Error::success();
  for (const LogicalTensor& tensor : tensors) {
    if (ParseExpertName(tensor.name)) {
      return Fail(ErrorCode::kUnsupported,
                  "`{}` is of an expert of DeepSpeed's MoE layer, and `{}` has experts that AutoEP spreads: no folder "
                  "spreads both over the ranks that `ep` names",
                  tensor.name, *deepspeed::StateOf(training).fused_experts.begin());
    }
    if (!deepspeed::StateOf(training).fused_experts.contains(tensor.name) || tensor.shape.empty()) continue;
    if (tensor.shape.front() % loader.folding->ep_size == 0) continue;
    return Fail(ErrorCode::kUsage, "ep={}: the {} experts of `{}` do not divide over so many ranks",
                loader.folding->ep_size, tensor.shape.front(), tensor.name);
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<TargetFiles> LayOutFolder(std::span<const LogicalTensor> tensors, const TrainingState& training,
                                         const Strategy& strategy) {
  std::vector<std::string> remarks;
  UCP_ASSIGN_OR_RETURN(Loader loader, FindLoader(strategy, training, remarks));
  UCP_RETURN_IF_ERROR(CheckSpreadExperts(tensors, training, loader));
  UCP_ASSIGN_OR_RETURN(const TrainingState adapted, WithExpertRanks(training, tensors, loader.ep, remarks));
  UCP_ASSIGN_OR_RETURN(TargetFiles target, Writer(tensors, adapted, loader).Run());
  target.remarks.insert(target.remarks.begin(), remarks.begin(), remarks.end());
  return target;
}

}  // namespace ucp::universal
