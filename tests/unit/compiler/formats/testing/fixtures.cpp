#include "tests/unit/compiler/formats/testing/fixtures.h"

#include <gtest/gtest.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/SHA256.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/pytorch/values/value.h"
#include "compiler/formats/recognise/recognise.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::testing {
namespace {

const std::filesystem::path& Folder() {
  static const std::filesystem::path folder = std::filesystem::path(UCP_SOURCE_DIR) / "tests/fixtures";
  return folder;
}

std::string ReadFile(const std::filesystem::path& path) {
  auto content = ReadWholeFile(RealFiles(), path.string(), std::uint64_t{1} << 30);
  if (content) return *std::move(content);
  ADD_FAILURE() << TakeFailure(content.takeError()).message;
  return "";
}

TrueTensor TensorFrom(const llvm::json::Object& object) {
  TrueTensor tensor;
  tensor.kind = object.getString("kind")->str();
  for (const llvm::json::Value& size : *object.getArray("shape")) tensor.shape.push_back(*size.getAsInteger());
  for (const auto& [name, state] : *object.getObject("states")) {
    const llvm::json::Object& entry = *state.getAsObject();
    tensor.states[name.str()] = {entry.getString("dtype")->str(), entry.getString("sha256")->str()};
  }
  return tensor;
}

}  // namespace

std::vector<std::string> FixtureNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    if (std::filesystem::exists(entry.path() / "truth.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string FixtureRoot(const std::string& name) { return (Folder() / name / "checkpoint").string(); }

Truth TruthOf(const std::string& name) {
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(ReadFile(Folder() / name / "truth.json"));
  EXPECT_TRUE(static_cast<bool>(parsed)) << name;
  const llvm::json::Object& root = *parsed->getAsObject();
  const llvm::json::Object& mesh = *root.getObject("mesh");
  Truth truth;
  truth.pp = *mesh.getInteger("pp");
  truth.tp = *mesh.getInteger("tp");
  const llvm::json::Object& config = *root.getObject("config");
  // Only BF16_Optimizer, which bfloat16 pipelines have, cuts anything without ZeRO.
  const bool is_whole = config.getInteger("stage") == 0 && (truth.pp == 1 || config.getString("dtype") != "bf16");
  const bool has_frozen = !config.getBoolean("exclude_frozen").value_or(false);
  truth.partitions = is_whole ? 1 : *mesh.getInteger("dp") * *mesh.getInteger("sp");
  const llvm::json::Object& counter = *root.getObject("step_counter");
  truth.step_type = counter.getString("type")->str();
  truth.step = counter.getNumber("value").value_or(0);
  for (const auto& [tensor, value] : *root.getObject("tensors")) {
    TrueTensor held = TensorFrom(*value.getAsObject());
    if (has_frozen || held.kind != "frozen") truth.tensors[tensor.str()] = std::move(held);
  }
  for (const auto& [alias, canonical] : *root.getObject("aliases")) {
    truth.aliases[alias.str()] = canonical.getAsString()->str();
  }
  return truth;
}

Checkpoint DescribeOrFail(ReadableFileSystem& files, const std::string& path) {
  llvm::Expected<Recognised> recognised = RecogniseAny(files, path);
  if (!recognised) {
    ADD_FAILURE() << TakeFailure(recognised.takeError()).message;
    return {};
  }
  llvm::Expected<Checkpoint> checkpoint = recognised->format->Describe(files, recognised->folder, {}, 1);
  if (!checkpoint) {
    ADD_FAILURE() << TakeFailure(checkpoint.takeError()).message;
    return {};
  }
  return std::move(*checkpoint);
}

std::string GatherShard(const Inventory& inventory, const Shard& shard, const std::string& state) {
  const Storage& storage = inventory.storage;
  const Buffer* buffer = nullptr;
  for (const StateBuffer& entry : storage.buffer_sets[shard.states.index()]) {
    if (entry.state == state) buffer = &storage.buffers[entry.buffer.index()];
  }
  if (buffer == nullptr) return "no such state";
  std::vector<std::int64_t> strides = shard.strides.empty() ? pytorch::ContiguousStrides(shard.shape) : shard.strides;
  std::int64_t elements = 1;
  for (std::int64_t size : shard.shape) elements *= size;
  const auto item = static_cast<std::size_t>(ItemBytes(buffer->dtype));
  std::map<std::string, std::string> contents;
  std::string gathered;
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t place = shard.base;
    std::int64_t rest = i;
    for (std::size_t d = shard.shape.size(); d-- > 0; rest /= shard.shape[d])
      place += rest % shard.shape[d] * strides[d];
    std::int64_t index = place / buffer->part_elements;
    std::int64_t in_part = place % buffer->part_elements;
    if (shard.spread == Spread::kEachTensor) {
      const std::int64_t each = CeilDivide(elements, static_cast<std::int64_t>(buffer->parts.size()));
      index = i / each;
      in_part = shard.base + i % each;
    }
    const BufferPart& part = buffer->parts[static_cast<std::size_t>(index)];
    EXPECT_LT(in_part, part.elements) << shard.tensor;
    const Record& record = storage.record(part.record);
    auto [content, added] = contents.try_emplace(storage.files[record.file.index()].path);
    if (added) content->second = ReadFile(std::filesystem::path(inventory.root) / content->first);
    const auto element = static_cast<std::size_t>(part.first_element + in_part);
    gathered += content->second.substr(record.begin + element * item, item);
  }
  return gathered;
}

std::string Sha256(const std::string& bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::string text;
  for (std::uint8_t byte : llvm::SHA256::hash(llvm::ArrayRef<std::uint8_t>(data, bytes.size()))) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

std::vector<LogicalTensor> WholeTensors(const Inventory& inventory) {
  std::map<std::string, LogicalTensor> tensors;
  for (const Shard& shard : inventory.storage.shards) {
    if (inventory.aliases.contains(shard.tensor)) continue;
    LogicalTensor& tensor = tensors[shard.tensor];
    tensor.name = shard.tensor;
    tensor.kind = shard.kind;
    tensor.shape = inventory.boxes() != nullptr ? inventory.boxes()->at(shard.tensor).shape : shard.shape;
    if (const auto places = inventory.expert_places.find(shard.tensor); places != inventory.expert_places.end()) {
      std::set<std::int64_t> experts;
      for (const auto& own : places->second) experts.insert(own.begin(), own.end());
      tensor.shape.front() = std::ssize(experts);
    }
    for (const StateBuffer& entry : inventory.storage.buffer_sets[shard.states.index()]) {
      LogicalTensor::State state{entry.state, inventory.storage.buffers[entry.buffer.index()].dtype};
      const bool is_known = std::find(tensor.states.begin(), tensor.states.end(), state) != tensor.states.end();
      const bool is_copy = shard.kind == TensorKind::kParameter && entry.state == kWeightState;
      if (!is_known && !is_copy) tensor.states.push_back(state);
    }
  }
  std::vector<LogicalTensor> list;
  for (auto& [name, tensor] : tensors) list.push_back(std::move(tensor));
  return list;
}

llvm::Expected<TargetFiles> LayOutWhole(const Format& format, const Checkpoint& checkpoint,
                                        const std::string& settings) {
  UCP_ASSIGN_OR_RETURN(
      Strategy strategy,
      ParseStrategy(settings.empty() ? std::string(format.name()) : fmt::format("{}:{}", format.name(), settings)));
  if (format.name() == "safetensors") strategy.options["states"] = "all";
  UCP_ASSIGN_OR_RETURN(std::optional<Degrees> degrees, format.TargetDegrees(strategy, checkpoint.training));
  Layout layout;  // Formats that write tensors whole do not ask for it.
  if (degrees) {
    UCP_ASSIGN_OR_RETURN(layout, WholeLayout(checkpoint.inventory));
    layout.mesh = degrees->mesh;
  }
  const std::vector<LogicalTensor> tensors = WholeTensors(checkpoint.inventory);
  return format.LayOut({tensors, layout, checkpoint.training, checkpoint.inventory.mesh, strategy});
}

}  // namespace ucp::testing
