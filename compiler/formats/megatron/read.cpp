// `.metadata` says which tensors there are, and where; `common.pt` says the rest.
#include "compiler/formats/megatron/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "compiler/formats/dcp/entries/engine_entries.h"
#include "compiler/formats/dcp/entries/parameter_order.h"
#include "compiler/formats/dcp/file_names.h"
#include "compiler/formats/dcp/items.h"
#include "compiler/formats/dcp/metadata.h"
#include "compiler/formats/facts.h"
#include "compiler/formats/identity.h"
#include "compiler/formats/megatron/own_buffers.h"
#include "compiler/formats/megatron/rules/arguments.h"
#include "compiler/formats/megatron/rules/common.h"
#include "compiler/formats/megatron/rules/groups.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/megatron/rules/rank_buffers.h"
#include "compiler/formats/megatron/shifted_states.h"
#include "compiler/formats/megatron/tensors.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/layout/dtype.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/json_text.h"

namespace ucp::megatron {
namespace {

constexpr const char* kBackend = "torch_dist";
constexpr std::uint64_t kMostDescriptionBytes = 65536;
constexpr std::string_view kCommonObject = "common_state";
constexpr std::string_view kReadBuffers = "dp_reshardable";
constexpr std::string_view kShiftedSharding = "fully_reshardable";
constexpr std::string_view kDistributed = "optimizer.distributed.";
constexpr std::string_view kExtraState = "._extra_state";

llvm::Expected<std::string> BackendIn(std::string_view description) {
  std::string backend;
  JsonReader json(description);
  UCP_RETURN_IF_ERROR(json.ReadObject([&](const std::string& key) -> llvm::Error {
    if (key != "sharded_backend") return json.SkipValue(4);
    UCP_ASSIGN_OR_RETURN(backend, json.ReadText());
    return llvm::Error::success();
  }));
  UCP_RETURN_IF_ERROR(json.ReadEnd());
  return backend;
}

// Several optimizers, each with its number before its keys, have objects of their own.
bool IsOfBuffers(std::string_view object) { return object.find(kDistributed) != object.npos; }

bool IsMaster(const dcp::StateOfTensor& state) { return state.state == kMasterState; }

class Folder {
 public:
  Folder(ReadableFileSystem& files, const std::string& folder, unsigned threads)
      : files_(files),
        folder_(folder),
        items_(files, folder, checkpoint_.inventory.storage, checkpoint_.training, threads) {}

  llvm::Expected<Checkpoint> Describe(const RankPreference& preference, States states) {
    inventory().format = "megatron";
    inventory().root = folder_;
    inventory().preference = preference;
    inventory().cuts = BoxesOfTensors();
    training().tag = NameOfFolder(folder_);
    training().ranks.emplace_back();
    UCP_RETURN_IF_ERROR(CheckBackend());
    UCP_RETURN_IF_ERROR(ReadMetadataFile());
    auto keys = SortKeys(metadata_.entries);
    if (!keys) return AddContext(keys.takeError(), fmt::format("`{}`", folder_));
    keys_ = *std::move(keys);
    UCP_RETURN_IF_ERROR(ReadItems());
    UCP_RETURN_IF_ERROR(ReadCommonState());
    const Arguments arguments(inventory().facts);
    if (llvm::Error error = arguments.Check(keys_)) return AddContext(std::move(error), fmt::format("`{}`", folder_));
    SortStates();
    UCP_RETURN_IF_ERROR(ReadOwnBuffers(arguments));
    if (states == States::kShifted) UCP_RETURN_IF_ERROR(FindShifted(arguments));
    TakeOptimizer();
    if (states == States::kShifted && !training().absent_optimizer.empty()) {
      return Fail(ErrorCode::kUnsupported, "the states in `{}` cannot be repaired: {}", folder_,
                  training().absent_optimizer);
    }
    if (llvm::Error error = AddTensors()) return AddContext(std::move(error), fmt::format("`{}`", folder_));
    UCP_RETURN_IF_ERROR(TakeObjects());
    dcp::TakeEngineEntries(training());
    Remark(arguments);
    CountBoxes();
    return std::move(checkpoint_);
  }

 private:
  Inventory& inventory() { return checkpoint_.inventory; }
  TrainingState& training() { return checkpoint_.training; }
  std::string PathOf(const char* file) const { return JoinPath(folder_, file); }

  // Written last.
  llvm::Error CheckBackend() {
    const std::string path = PathOf(dcp::kMegatronDescription);
    UCP_ASSIGN_OR_RETURN(const PathKind kind, files_.Kind(path));
    if (kind == PathKind::kMissing) {
      return Fail(
          ErrorCode::kBadData,
          "`{}` holds no `{}`, which Megatron Core writes last: the save did not finish; use an older checkpoint",
          folder_, dcp::kMegatronDescription);
    }
    UCP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files_, path, kMostDescriptionBytes));
    auto backend = BackendIn(text);
    if (!backend) return AddContext(backend.takeError(), fmt::format("`{}`", path));
    inventory().storage.Add(StoredFile{dcp::kMegatronDescription, text.size(), ContentHash(text)});
    if (*backend == kBackend) return llvm::Error::success();
    return Fail(ErrorCode::kUnsupported,
                "`{}` says that the tensors are stored as `{}`, and `{}` is read; load it with Megatron Core and save "
                "it again",
                path, *backend, kBackend);
  }

  llvm::Error ReadMetadataFile() {
    const std::string path = PathOf(dcp::kMetadataFile);
    UCP_ASSIGN_OR_RETURN(const PathKind kind, files_.Kind(path));
    if (kind == PathKind::kMissing) {
      return Fail(ErrorCode::kBadData, "`{}` is missing, which says where the tensors are; copy the whole folder",
                  path);
    }
    UCP_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(files_, path, dcp::kMostMetadataBytes));
    auto metadata = dcp::ReadMetadata(bytes, dcp::MetadataOf::kMegatron);
    if (!metadata) return AddContext(metadata.takeError(), fmt::format("`{}`", path));
    metadata_ = *std::move(metadata);
    inventory().storage.Add(StoredFile{dcp::kMetadataFile, bytes.size(), ContentHash(bytes)});
    return llvm::Error::success();
  }

  llvm::Error ReadItems() {
    std::vector<dcp::WantedItem> wanted;
    for (dcp::Entry& entry : metadata_.entries) {
      for (dcp::Chunk& chunk : entry.chunks) wanted.push_back({&entry, &chunk, chunk.place.file});
    }
    return items_.Read(metadata_.files, std::move(wanted));
  }

  // The value of an object, which is stored as a list of one item.
  llvm::Expected<pytorch::ValuePtr> ObjectOf(const dcp::Entry& entry) {
    UCP_ASSIGN_OR_RETURN(const auto values, items_.Keep({&entry}));
    const auto* list = pytorch::Items(*values.at(&entry));
    if (list != nullptr && list->size() == 1) return list->front();
    return Fail(ErrorCode::kBadData, "`{}`: `{}` is not a list of one item, as which Megatron Core saves objects",
                folder_, entry.key);
  }

  llvm::Error ReadCommonState() {
    const auto object = std::ranges::find(keys_.objects, kCommonObject, &ShardOfObject::object);
    pytorch::ValuePtr root;
    if (object != keys_.objects.end()) {
      where_ = object->entry->key;
      UCP_ASSIGN_OR_RETURN(root, ObjectOf(*object->entry));
    } else {
      where_ = dcp::kMegatronCommonFile;
      UCP_ASSIGN_OR_RETURN(root, items_.KeepFile(dcp::kMegatronCommonFile));
    }
    UCP_ASSIGN_OR_RETURN(common_, ReadCommon(*root, fmt::format("`{}`", PathOf(where_.c_str()))));
    RankState& rank = training().ranks.front();
    rank.client = common_.entries;
    rank.client_origin = {where_, ""};
    rank.module_origin = {dcp::kMetadataFile, ""};
    training().groups_origin = {where_, "optimizer.optimizer.param_groups"};
    training().optimizer_origin = {where_, "optimizer"};
    training().optimizer = common_.optimizer;
    AddFacts(rank.client, {}, where_, inventory().facts);
    return llvm::Error::success();
  }

  void SortStates() {
    for (const StateKey& state : keys_.states) states_[state.tensor].push_back({state.state, state.entry});
  }

  bool HasOwnBuffers() const {
    return !keys_.buffers.empty() ||
           std::ranges::any_of(keys_.objects, [](const ShardOfObject& shard) { return IsOfBuffers(shard.object); });
  }

  // The first rank's groups are those of all, as in `common.pt`.
  llvm::Error ReadOwnBuffers(const Arguments& arguments) {
    const bool is_read = HasOwnBuffers() && common_.sharding == kReadBuffers;
    if (!is_read) return llvm::Error::success();
    ValuesOfObjects objects;
    for (const ShardOfObject& shard : keys_.objects) {
      if (!IsOfBuffers(shard.object)) continue;
      UCP_ASSIGN_OR_RETURN(objects[shard.object], ObjectOf(*shard.entry));
    }
    own_ = FindRanges(keys_, arguments, objects);
    for (const std::string_view optimizer : kOptimizers) {
      const auto groups = objects.find(NameOfObject(optimizer, 0, "optimizer"));
      if (groups != objects.end()) AddGroups(*groups->second, common_);
      const auto scaler = objects.find(NameOfObject(optimizer, 0, "grad_scaler"));
      const bool is_first = scaler != objects.end() && FindEntry(training().optimizer, "grad_scaler") == nullptr;
      if (is_first && !scaler->second->is_none())
        training().optimizer.push_back({pytorch::MakeText("grad_scaler"), scaler->second});
    }
    return llvm::Error::success();
  }

  llvm::Error FindShifted(const Arguments& arguments) {
    if (common_.sharding.empty()) {
      return Fail(ErrorCode::kUsage,
                  "`{}` has no distributed optimizer, whose states alone Megatron Core shifts; convert it without a "
                  "repair",
                  folder_);
    }
    if (common_.sharding != kShiftedSharding) {
      return Fail(ErrorCode::kUsage,
                  "`{}` has its optimizer as `{}`, and Megatron Core shifts states of `{}` alone; convert it without a "
                  "repair",
                  folder_, common_.sharding, kShiftedSharding);
    }
    ShiftedStates shifted = FindShiftedStates(keys_, arguments);
    if (!shifted.unread.empty()) {
      return Fail(ErrorCode::kUnsupported, "the states in `{}` cannot be repaired: {}", folder_, shifted.unread);
    }
    own_.ranges = std::move(shifted.ranges);
    inventory().remarks.emplace_back("the states are read from where Megatron Core's fault put them");
    for (const std::string& box : shifted.lost) {
      inventory().remarks.push_back(
          fmt::format("{} is stored nowhere: its masters are the weights, and its other states zeros", box));
    }
    return llvm::Error::success();
  }

  // Why the states cannot be read, as a sentence; empty if they can.
  std::string WhyUnread() const {
    const bool is_known = common_.sharding == kReadBuffers;
    const bool has_unread_buffers = HasOwnBuffers() && !(is_known && own_.unread.empty());
    if (has_unread_buffers) {
      return fmt::format("the optimizer is stored in its own buffers (`{}`), which {}; save it as `fully_reshardable`",
                         common_.sharding,
                         is_known ? "are not understood: " + own_.unread : "this version does not read");
    }
    for (const auto& [name, states] : states_) {
      const auto tensor = std::ranges::find(keys_.tensors, name, &dcp::Entry::key);
      if (tensor == keys_.tensors.end()) {
        return fmt::format("`{}` is a state of `{}`, which is not among the tensors of the model",
                           states.front().entry->key, name);
      }
      if (std::ranges::any_of(states, IsMaster) || (*tensor)->dtype == DType::kFloat32) continue;
      return fmt::format("the optimizer has `{}` and no master of `{}`, which is {}", states.front().entry->key, name,
                         Name((*tensor)->dtype));
    }
    if (common_.groups.empty()) return fmt::format("`{}` has no `param_groups` of the optimizer", where_);
    return "";
  }

  bool IsTrained(const dcp::Entry& tensor) const {
    return states_.contains(tensor.key) || own_.ranges.contains(tensor.key);
  }

  void TakeOptimizer() {
    if (keys_.states.empty() && !HasOwnBuffers()) {
      training().absent_optimizer = fmt::format("`{}` holds no states of an optimizer", folder_);
      return;
    }
    std::string unread = WhyUnread();
    Groups dealt;
    if (unread.empty()) {
      std::vector<dcp::ModelEntry> order;
      for (const dcp::Entry* tensor : keys_.tensors) {
        if (IsTrained(*tensor)) order.push_back({tensor->key, tensor});
      }
      training().order_doubt = dcp::PutInOrder(order);
      std::vector<Parameter> parameters;
      for (const dcp::ModelEntry& tensor : order) parameters.push_back({tensor.name, tensor.entry->shape.size()});
      dealt = DealIntoGroups(common_, parameters);
      unread = dealt.unread;
    }
    if (unread.empty()) {
      training().groups = std::move(dealt.groups);
      return;
    }
    training().absent_optimizer = fmt::format("`{}`: {}", folder_, unread);
    training().has_unread_optimizer = true;
    inventory().remarks.push_back(unread + ". Its weights are read alone");
  }

  llvm::Error AddTensors() {
    if (keys_.tensors.empty()) return Fail(ErrorCode::kUnsupported, "it holds no tensors of a model");
    Tensors tensors(items_, metadata_.shapes_in_model, inventory());
    for (const dcp::Entry* tensor : keys_.tensors) {
      const bool is_trained = training().absent_optimizer.empty() && IsTrained(*tensor);
      if (!is_trained) {
        const TensorKind kind = IsFloatingPoint(tensor->dtype) ? TensorKind::kFrozen : TensorKind::kBuffer;
        UCP_RETURN_IF_ERROR(tensors.Add(*tensor, kind, {{kWeightState, tensor}}));
        continue;
      }
      if (const auto own = own_.ranges.find(tensor->key); own != own_.ranges.end()) {
        UCP_RETURN_IF_ERROR(tensors.Add(*tensor, TensorKind::kParameter, {{kWeightState, tensor}}));
        UCP_RETURN_IF_ERROR(tensors.AddRanges(*tensor, own->second));
        continue;
      }
      std::vector<dcp::StateOfTensor> states = states_.at(tensor->key);
      const bool has_master = std::ranges::any_of(states, IsMaster);
      if (!has_master) states.push_back({kMasterState, tensor});  // The model is trained in its own precision.
      std::ranges::sort(states, {}, &dcp::StateOfTensor::state);
      UCP_RETURN_IF_ERROR(tensors.Add(*tensor, TensorKind::kParameter, states));
      if (has_master) UCP_RETURN_IF_ERROR(tensors.Add(*tensor, TensorKind::kParameter, {{kWeightState, tensor}}));
    }
    return llvm::Error::success();
  }

  // Those of the modules are kept where they are None: Megatron Core's loader asks for each.
  llvm::Error TakeObjects() {
    RankState& rank = training().ranks.front();
    for (const ShardOfObject& shard : keys_.objects) {
      if (shard.object == kCommonObject || IsOfBuffers(shard.object)) continue;
      UCP_ASSIGN_OR_RETURN(pytorch::ValuePtr value, ObjectOf(*shard.entry));
      auto& entries = shard.object.ends_with(kExtraState) ? rank.module_extras : rank.client;
      entries.push_back({pytorch::MakeText(shard.entry->key), std::move(value)});
    }
    return llvm::Error::success();
  }

  void Remark(const Arguments& arguments) {
    const std::string degrees = arguments.Degrees();
    std::string text =
        fmt::format("Megatron Core saved it as `{}`{}{}", kBackend, degrees.empty() ? "" : " at ", degrees);
    if (!common_.sharding.empty()) text += fmt::format(", the optimizer as `{}`", common_.sharding);
    inventory().remarks.insert(inventory().remarks.begin(), std::move(text));
  }

  void CountBoxes() {
    std::int64_t most = 1;
    for (const auto& [name, tensor] : *inventory().boxes()) most = std::max(most, std::ssize(tensor.boxes));
    for (const LargeTensor& tensor : training().large_tensors) most = std::max(most, std::ssize(tensor.boxes));
    inventory().mesh.axes = {{kBoxAxis, most}};
  }

  ReadableFileSystem& files_;
  const std::string folder_;
  Checkpoint checkpoint_;
  dcp::Items items_;
  dcp::Metadata metadata_;  // Its entries are final before anything points to them.
  Keys keys_;
  std::string where_;  // In it stands all that ranks say once.
  Common common_;
  OwnBuffers own_;
  std::unordered_map<std::string, std::vector<dcp::StateOfTensor>> states_;  // By tensor.
};

}  // namespace

llvm::Expected<Checkpoint> DescribeFolder(ReadableFileSystem& files, const std::string& folder,
                                          const RankPreference& preference, unsigned threads, States states) {
  return Folder(files, folder, threads).Describe(preference, states);
}

}  // namespace ucp::megatron
