#include "compiler/formats/deepspeed/native/write/readers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/expert_ranks.h"
#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/native/write/experts.h"
#include "compiler/formats/deepspeed/native/write/job/adapt_config.h"
#include "compiler/formats/deepspeed/native/write/job/engine_config.h"
#include "compiler/formats/deepspeed/native/write/job/job_config.h"
#include "compiler/formats/deepspeed/native/write/job/open_settings.h"
#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using Partitions = std::vector<std::int64_t>;

class ReadersByName {
 public:
  ReadersByName(const TargetRequest& request, const TargetFiles& target, const WriteOptions& options,
                const ExpertsToWrite& experts)
      : request_(request),
        target_(target),
        options_(options),
        experts_(experts),
        of_files_(target.storage.files.size()) {}

  llvm::Expected<FileReaders> Find() {
    UCP_ASSIGN_OR_RETURN(const CheckpointFiles files, ListFiles());
    Partitions all(static_cast<std::size_t>(options_.dp));
    std::iota(all.begin(), all.end(), 0);
    for (const auto& [mp, name] : files.model_states) Add(name, mp, all);
    for (const auto& [place, name] : files.partitioned_model_states) Add(name, place.mp, {place.partition});
    for (const auto& [place, name] : files.optimizer_states) {
      Add(name, place.mp, options_.elastic ? all : Partitions{place.partition});
    }
    for (const auto& [place, name] : files.experts)
      Add(name, place.mp, WithExpertsOf(place.mp, ExpertRankOfFile(name)));
    for (const auto& [place, name] : files.expert_optimizers)
      Add(name, place.first, WithExpertsOf(place.first, place.second));
    for (const auto& [layer, stages] : StagesOfLayers(files)) {
      for (std::int64_t stage : stages) Add(files.layers.at(layer), stage * options_.tp + layer.tp, all);
    }
    for (std::vector<int>& readers : of_files_) std::sort(readers.begin(), readers.end());
    return MakeReaders(static_cast<int>(options_.mp() * options_.dp), of_files_);
  }

 private:
  // Those of the tag's folder.
  llvm::Expected<CheckpointFiles> ListFiles() {
    CheckpointFiles files;
    const std::string folder = request_.training.tag + "/";
    for (std::size_t id = 0; id < of_files_.size(); ++id) {
      const std::string& path = target_.storage.files[id].path;
      if (!path.starts_with(folder)) continue;
      const std::string name = path.substr(folder.size());
      file_of_name_[name] = FileId(id);
      UCP_RETURN_IF_ERROR(AddFileName(files, name));
    }
    FindShards(files);
    return files;
  }

  // Of files of layers and of experts, whose names do not say all. Under ZeRO-3 every shard has parts in thousands of
  // others.
  void FindShards(const CheckpointFiles& files) {
    for (const auto& [layer, name] : files.layers) shards_of_file_[file_of_name_.at(name)];
    for (const auto& [place, name] : files.experts) shards_of_file_[file_of_name_.at(name)];
    if (shards_of_file_.empty()) return;
    std::vector<std::vector<FileId>> of_buffers;
    for (const Buffer& buffer : target_.storage.buffers) {
      std::vector<FileId>& found = of_buffers.emplace_back();
      for (const BufferPart& part : buffer.parts) {
        const FileId file = target_.storage.record(part.record).file;
        if (shards_of_file_.contains(file)) found.push_back(file);
      }
    }
    for (const Shard& shard : target_.storage.shards) {
      for (const StateBuffer& state : target_.storage.buffer_set(shard.states)) {
        for (FileId file : of_buffers[state.buffer.index()]) shards_of_file_[file].push_back(&shard);
      }
    }
  }

  void Add(const std::string& name, std::int64_t mp, const Partitions& partitions) {
    std::vector<int>& readers = of_files_[file_of_name_.at(name).index()];
    for (std::int64_t partition : partitions) {
      readers.push_back(
          static_cast<int>((mp / options_.tp * options_.dp + partition) * options_.tp + mp % options_.tp));
    }
  }

  Partitions WithExpertsOf(std::int64_t mp, std::int64_t expert_rank) const {
    Partitions partitions;
    for (const std::int64_t number : experts_.RanksOf(expert_rank)) {
      const RankInFiles place = PlaceOfRank(number, experts_.tensor_ranks());
      if (place.tensor_rank == mp % experts_.tensor_ranks()) partitions.push_back(place.partition);
    }
    return partitions;
  }

  std::int64_t ExpertRankOfFile(const std::string& name) const {
    const std::vector<const Shard*>& shards = shards_of_file_.at(file_of_name_.at(name));
    return shards.front()->coordinate.At("ep");
  }

  // Stages have layers in order, each file's tensors say which stages have them, and a tied module's are on several: of
  // these, the one that lies between the neighbours' counts.
  std::map<LayerOf, std::set<std::int64_t>> StagesOfLayers(const CheckpointFiles& files) const {
    std::map<LayerOf, std::set<std::int64_t>> stages;
    std::set<std::int64_t> all;
    for (std::int64_t stage = 0; stage < options_.pp; ++stage) all.insert(stage);
    for (const auto& [layer, name] : files.layers) stages[layer] = StagesOfFile(name, all);
    std::map<std::int64_t, std::int64_t> earliest;  // By tensor rank.
    for (auto& [layer, held] : stages) {
      std::erase_if(held, [&](std::int64_t stage) { return stage < earliest[layer.tp]; });
      if (held.size() == 1) earliest[layer.tp] = *held.begin();
    }
    std::map<std::int64_t, std::int64_t> latest;
    for (auto entry = stages.rbegin(); entry != stages.rend(); ++entry) {
      auto& [layer, held] = *entry;
      auto bound = latest.try_emplace(layer.tp, options_.pp - 1).first;
      std::erase_if(held, [&](std::int64_t stage) { return stage > bound->second; });
      if (held.size() == 1) bound->second = *held.begin();
    }
    return stages;
  }

  std::set<std::int64_t> StagesOfFile(const std::string& name, const std::set<std::int64_t>& all) const {
    const auto shards = shards_of_file_.find(file_of_name_.at(name));
    if (shards->second.empty()) return all;
    std::set<std::int64_t> stages;
    for (const Shard* shard : shards->second) {
      const TensorLayout* layout = request_.layout.Find(shard->tensor);
      if (layout == nullptr || !layout->stages) return all;
      stages.insert(layout->stages->begin(), layout->stages->end());
      stages.insert(layout->unused_stages.begin(), layout->unused_stages.end());
    }
    return stages;
  }

  const TargetRequest& request_;
  const TargetFiles& target_;
  const WriteOptions& options_;
  const ExpertsToWrite& experts_;
  std::vector<std::vector<int>> of_files_;  // By FileId; none: every rank.
  std::map<std::string, FileId> file_of_name_;
  std::map<FileId, std::vector<const Shard*>> shards_of_file_;  // Of layers and experts.
};

}  // namespace

llvm::Expected<FileReaders> ReadersOf(const TargetRequest& asked, const TargetFiles& target) {
  TrainingState configured = asked.training;
  if (asked.job_config != nullptr) {
    UCP_ASSIGN_OR_RETURN(const EngineConfig config, ParseEngineConfig(*asked.job_config));
    UCP_ASSIGN_OR_RETURN(pytorch::ValuePtr job, ConfigOfJob(config, asked.strategy));
    SetEntry(configured.engine, "ds_config", job);
  }
  std::vector<std::string> remarks;  // LayOut() has shown them.
  UCP_ASSIGN_OR_RETURN(const Strategy strategy, CloseSettings(asked.strategy, configured, asked.tensors, remarks));
  UCP_ASSIGN_OR_RETURN(const WriteOptions options, ReadWriteOptions(strategy, configured));
  UCP_ASSIGN_OR_RETURN(const ExpertsToWrite experts, ExpertsToWrite::Find(asked, options));
  return ReadersByName(asked, target, options, experts).Find();
}

}  // namespace ucp::deepspeed
