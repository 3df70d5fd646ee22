#include "compiler/formats/safetensors/training_file.h"

#include <fmt/format.h>

#include "compiler/formats/facts.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/safetensors/file_names.h"
#include "compiler/formats/source_archives.h"
#include "compiler/support/error.h"

namespace ucp::safetensors {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeText;
using pytorch::ValuePtr;

constexpr std::int64_t kVersion = 1;

ValuePtr TextList(std::span<const std::string> texts) {
  std::vector<ValuePtr> items;
  for (const std::string& text : texts) items.push_back(MakeText(text));
  return pytorch::MakeList(std::move(items));
}

// Reads what stands under the keys of one dict, and says which is missing or of another kind.
class DictReader {
 public:
  DictReader(const pytorch::Value& dict, std::string place) : dict_(dict), place_(std::move(place)) {}

  llvm::Expected<ValuePtr> Get(std::string_view key) const {
    ValuePtr value = pytorch::Find(dict_, key);
    return value ? llvm::Expected<ValuePtr>(value) : Wrong(key);
  }

  llvm::Expected<std::string> GetText(std::string_view key) const {
    UCP_ASSIGN_OR_RETURN(ValuePtr value, Get(key));
    auto text = pytorch::AsText(*value);
    return text ? llvm::Expected<std::string>(std::string(*text)) : Wrong(key);
  }

  llvm::Expected<std::vector<Entry>> GetEntries(std::string_view key) const {
    UCP_ASSIGN_OR_RETURN(ValuePtr value, Get(key));
    const std::vector<Entry>* entries = pytorch::Entries(*value);
    return entries != nullptr ? llvm::Expected<std::vector<Entry>>(*entries) : Wrong(key);
  }

  llvm::Expected<std::vector<ValuePtr>> GetItems(std::string_view key) const {
    UCP_ASSIGN_OR_RETURN(ValuePtr value, Get(key));
    const std::vector<ValuePtr>* items = pytorch::Items(*value);
    return items != nullptr ? llvm::Expected<std::vector<ValuePtr>>(*items) : Wrong(key);
  }

  llvm::Expected<std::vector<std::string>> GetTexts(std::string_view key) const {
    UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> items, GetItems(key));
    std::vector<std::string> texts;
    for (const ValuePtr& item : items) {
      auto text = pytorch::AsText(*item);
      if (!text) return Wrong(key);
      texts.emplace_back(*text);
    }
    return texts;
  }

 private:
  llvm::Error Wrong(std::string_view key) const {
    return Fail(ErrorCode::kBadData, "{} has no `{}` of the kind that this project writes there", place_, key);
  }

  const pytorch::Value& dict_;
  const std::string place_;
};

llvm::Expected<OptimizerGroup> ReadGroup(const pytorch::Value& value, const std::string& place) {
  const DictReader dict(value, place);
  OptimizerGroup group;
  UCP_ASSIGN_OR_RETURN(std::vector<Entry> hyper_parameters, dict.GetEntries("hyper_parameters"));
  group.hyper_parameters = MakeDict(std::move(hyper_parameters));
  UCP_ASSIGN_OR_RETURN(group.step, dict.Get("step"));
  if (group.step->is_none()) group.step = nullptr;
  UCP_ASSIGN_OR_RETURN(group.parameters, dict.GetTexts("parameters"));
  return group;
}

llvm::Expected<RankState> ReadRank(const pytorch::Value& value, const std::string& place) {
  const DictReader dict(value, place);
  RankState rank;
  UCP_ASSIGN_OR_RETURN(rank.client, dict.GetEntries("client"));
  UCP_ASSIGN_OR_RETURN(rank.module_extras, dict.GetEntries("module_extras"));
  return rank;
}

llvm::Error ReadAliases(const std::vector<Entry>& entries, const std::string& place, TrainingState& training) {
  for (const Entry& entry : entries) {
    auto alias = pytorch::AsText(*entry.key);
    auto canonical = pytorch::AsText(*entry.value);
    if (!alias || !canonical) return Fail(ErrorCode::kBadData, "{}: `shared_params` is not of names", place);
    training.aliases.emplace(*alias, *canonical);
  }
  return llvm::Error::success();
}

}  // namespace

ComposedArchive ComposeTrainingFile(std::span<const LogicalTensor> tensors, const TrainingState& training) {
  ArchiveComposer composer(training);
  std::vector<ValuePtr> groups;
  for (const OptimizerGroup& group : training.groups) {
    groups.push_back(MakeDict({{MakeText("hyper_parameters"), composer.AddValue(group.hyper_parameters)},
                               {MakeText("step"), group.step ? composer.AddValue(group.step) : pytorch::MakeNone()},
                               {MakeText("parameters"), TextList(group.parameters)}}));
  }
  std::vector<ValuePtr> ranks;
  for (const RankState& rank : training.ranks) {
    ranks.push_back(MakeDict({{MakeText("client"), MakeDict(composer.AddEntries(rank.client))},
                              {MakeText("module_extras"), MakeDict(composer.AddEntries(rank.module_extras))}}));
  }
  std::vector<std::string> buffers;
  for (const LogicalTensor& tensor : tensors) {
    if (tensor.kind == TensorKind::kBuffer) buffers.push_back(tensor.name);
  }
  std::vector<Entry> shared;
  for (const auto& [alias, canonical] : training.aliases) shared.push_back({MakeText(alias), MakeText(canonical)});
  std::vector<Entry> entries = {{MakeText("ucp_training_state"), pytorch::MakeInteger(kVersion)},
                                {MakeText("tag"), MakeText(training.tag)},
                                {MakeText("groups"), pytorch::MakeList(std::move(groups))},
                                {MakeText("optimizer"), MakeDict(composer.AddEntries(training.optimizer))},
                                {MakeText("engine"), MakeDict(composer.AddEntries(training.engine))},
                                {MakeText("ranks"), pytorch::MakeList(std::move(ranks))},
                                {MakeText("buffers"), TextList(buffers)},
                                {MakeText("shared_params"), MakeDict(std::move(shared))}};
  if (training.format_state) {
    for (Entry& entry : training.format_state->Entries()) entries.push_back(std::move(entry));
  }
  return composer.Compose(MakeDict(std::move(entries)));
}

llvm::Expected<std::set<std::string>> ReadTrainingFile(ReadableFileSystem& files, const std::string& folder,
                                                       std::span<const FormatStateReader> readers,
                                                       Checkpoint& checkpoint) {
  TrainingState& training = checkpoint.training;
  SourceArchives archives(files, folder, checkpoint.inventory.storage, training);
  UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives.Open(std::string(kTrainingStateFile)));
  const std::string place = fmt::format("`{}`", archive.readable->path());
  UCP_ASSIGN_OR_RETURN(ValuePtr root, archives.Keep(archive, archive.archive.root(), "its entries"));
  const DictReader dict(*root, place);
  UCP_ASSIGN_OR_RETURN(ValuePtr version, dict.Get("ucp_training_state"));
  if (pytorch::AsInteger(*version) != kVersion) {
    return Fail(ErrorCode::kUnsupported, "{} is of version {}, and this version reads {}", place,
                pytorch::Print(*version), kVersion);
  }
  UCP_ASSIGN_OR_RETURN(training.tag, dict.GetText("tag"));
  UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> groups, dict.GetItems("groups"));
  for (const ValuePtr& group : groups) {
    UCP_ASSIGN_OR_RETURN(OptimizerGroup read, ReadGroup(*group, place));
    training.groups.push_back(std::move(read));
  }
  training.groups_origin = {archive.path, "groups"};
  training.optimizer_origin = {archive.path, "optimizer"};
  training.engine_origin = {archive.path, "engine"};
  UCP_ASSIGN_OR_RETURN(training.optimizer, dict.GetEntries("optimizer"));
  UCP_ASSIGN_OR_RETURN(training.engine, dict.GetEntries("engine"));
  UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> ranks, dict.GetItems("ranks"));
  for (const ValuePtr& rank : ranks) {
    UCP_ASSIGN_OR_RETURN(RankState read, ReadRank(*rank, place));
    const std::string path = fmt::format("ranks.{}", training.ranks.size());
    read.client_origin = {archive.path, path + ".client"};
    read.module_origin = {archive.path, path + ".module_extras"};
    training.ranks.push_back(std::move(read));
  }
  UCP_ASSIGN_OR_RETURN(std::vector<Entry> aliases, dict.GetEntries("shared_params"));
  UCP_RETURN_IF_ERROR(ReadAliases(aliases, place, training));
  checkpoint.inventory.aliases = training.aliases;
  for (FormatStateReader read : readers) {
    if (training.format_state) break;
    UCP_ASSIGN_OR_RETURN(training.format_state, read(*pytorch::Entries(*root), archive));  // It had entries above.
  }
  if (training.ranks.empty()) return Fail(ErrorCode::kBadData, "{} tells of no rank", place);
  AddFacts(training.ranks.front().client, training.engine, archive.path, checkpoint.inventory.facts);
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> buffers, dict.GetTexts("buffers"));
  return std::set<std::string>(buffers.begin(), buffers.end());
}

}  // namespace ucp::safetensors
