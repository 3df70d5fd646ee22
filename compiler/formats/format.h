// The interface of a checkpoint format: recognise a folder, describe it from its headers, lay out target files. Data is
// moved by the executor, which knows nothing of formats; a format never reads or writes the elements of a tensor
// (single numbers such as a step counter excepted).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/companions.h"
#include "compiler/formats/format_state.h"
#include "compiler/formats/job_config.h"
#include "compiler/formats/strategy.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/file_readers.h"
#include "compiler/layout/inventory.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/target.h"

namespace ucp {

struct Checkpoint {
  Inventory inventory;
  TrainingState training;
};

// An archive of torch.save within a file.
struct PackedArchive {
  std::string file;      // Relative to the folder.
  std::string unpacked;  // Not empty: the archive is all of this file, which is what those bytes unpack to.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// The request for the files of a target.
struct TargetRequest {
  std::span<const LogicalTensor> tensors;  // Sorted by name.
  const Layout& layout;                    // How the target's ranks hold them.
  const TrainingState& training;           // Of known objects alone (known_training.h).
  const Mesh& source_mesh;                 // The degrees of the source.
  const Strategy& strategy;
  std::span<const CompanionFile> companions = {};  // If the format takes them.
  const JobConfig* job_config = nullptr;           // If the format takes one, and the user gave it.
  unsigned threads = 1;                            // How many may compose files at the same time.
};

class Format {
 public:
  virtual ~Format() = default;
  virtual std::string_view name() const = 0;

  // Returns the settings of a strategy of this format, and their values.
  virtual StrategyRules strategy_rules() const = 0;

  // Returns whether this folder, which exists, is a checkpoint by the names in it. RecogniseAny() (recognise.h) asks.
  virtual llvm::Expected<bool> IsCheckpoint(ReadableFileSystem& files, const std::string& folder) const = 0;
  // Returns the file in a root whose text names the folder of the newest checkpoint. It is empty for models alone: they
  // have no roots, and trainers keep them beside checkpoints.
  virtual std::string_view latest_file() const { return ""; }
  bool has_roots() const { return !latest_file().empty(); }
  // Returns the tag of a target whose source has none; empty: the folders of targets have no names of their own.
  virtual std::string_view first_tag() const { return has_roots() ? "global_step0" : ""; }
  // Returns the folder that this text in it, without blanks around it, names.
  virtual std::string FolderOfLatest(std::string_view text) const { return std::string(text); }
  // Returns whether its checkpoints are models without a training, which may stand beside checkpoints of others.
  virtual bool IsModelAlone() const { return !has_roots(); }
  // Returns the checkpoint that this file means by its name, independent of the files around it: the file itself, or
  // its folder.
  virtual llvm::Expected<std::optional<std::string>> MeantByFile(ReadableFileSystem& files,
                                                                 const std::string& path) const;

  // Returns whether a checkpoint may have a file of this path below its folder; of a model alone, also beside the
  // folders of checkpoints, where trainers have them. `--force` replaces no other file.
  virtual bool MayHaveFile(std::string_view path) const = 0;
  // Returns how the names of its files end; a name in a manifest ends so, or is not believed to be one of them.
  virtual std::vector<std::string_view> file_endings() const = 0;
  // Returns whether this is, by its name, a file with a header, and all that Describe() reads of one such file. A
  // caller that shares headers between ranks notes the bytes that it reads. Fails where the file cannot be described.
  virtual bool HasHeader(std::string_view path) const = 0;
  [[nodiscard]] virtual llvm::Error ReadHeader(const ReadableFile& file) const = 0;
  // Returns the folder of a checkpoint in which each tensor has a folder of its own; empty if there is none.
  virtual std::string_view folder_of_tensors() const { return ""; }

  // From headers only. Call it with the result of RecogniseAny(). Where ranks contradict each other in what can be
  // believed, the preferred one counts, and the inventory says so; without one it is an error. With more than one of
  // `threads` several read files at the same time.
  virtual llvm::Expected<Checkpoint> Describe(ReadableFileSystem& files, const std::string& folder,
                                              const RankPreference& preference, unsigned threads) const = 0;

  // The same of a folder whose saving program is known to put elements in wrong places: they are looked for where they
  // are, and the inventory says which are nowhere. Fails with kUsage where no such fault is known.
  virtual llvm::Expected<Checkpoint> DescribeRepaired(ReadableFileSystem& files, const std::string& folder,
                                                      const RankPreference& preference, unsigned threads) const;

  // Returns the archives of torch.save that stand in files of this folder beside one another, where it has such files.
  // Fails where what says so cannot be read.
  virtual llvm::Expected<std::vector<PackedArchive>> PackedArchives(ReadableFileSystem& /*files*/,
                                                                    const std::string& /*folder*/) const {
    return std::vector<PackedArchive>();
  }

  // Returns the family's own part of the training state of a source that is made up for this strategy: the part that a
  // job would have made of these tensors. Returns null if there is none.
  virtual llvm::Expected<std::shared_ptr<const FormatState>> MakeState(const Strategy& strategy,
                                                                       std::span<const LogicalTensor> tensors,
                                                                       const TiedLayers& tied) const;

  // Returns the files beside the source that the folders of a target also have.
  virtual CompanionKind TakesCompanions(const Strategy& /*strategy*/, const TrainingState& /*training*/) const {
    return CompanionKind::kNone;
  }
  // Returns whether its files depend on the configuration of the job that will load them.
  virtual bool TakesJobConfig() const { return false; }
  // Fails where that cannot be read. LayOut() interprets it.
  [[nodiscard]] virtual llvm::Error CheckJobConfig(const JobConfig& /*job*/) const { return llvm::Error::success(); }
  // Returns the settings of the job that the strategy has to say, since neither the source nor its weights do, each
  // with its values: "zero=0 to zero=3 for the ZeRO stage". LayOut() fails without them.
  virtual std::vector<std::string> OpenSettings(const Strategy& /*strategy*/, const TrainingState& /*training*/,
                                                std::span<const LogicalTensor> /*tensors*/) const {
    return {};
  }
  // Returns whether a target can have states of the optimizer that are not one number for each element.
  virtual bool CarriesLooseStates() const { return false; }
  // Returns whether the strategy says how the layers of a pipeline are dealt over its stages, instead of a spec.
  virtual bool DealsLayers(const Strategy& /*strategy*/) const { return false; }
  // Returns whether a target of this strategy holds weights alone, without masters and states of the optimizer.
  virtual bool HoldsWeightsAlone(const Strategy& /*strategy*/) const { return false; }
  // Returns whether a source without an optimizer is enough for it.
  virtual bool TakesWeightsAlone(const Strategy& strategy) const { return HoldsWeightsAlone(strategy); }
  // Returns whether its tensors go by the names of a published model, without the parts that wrappers of a module add.
  virtual bool TakesPlainNames(const Strategy& /*strategy*/) const { return false; }
  // Returns the ranks over which a target cuts its tensors; nothing if it holds them whole. Fails for those on which a
  // job with this training state does not run, however a spec would cut it.
  virtual llvm::Expected<std::optional<Degrees>> TargetDegrees(const Strategy& strategy,
                                                               const TrainingState& training) const;
  // Cuts the layout of a target, in which the ranks of TargetDegrees() hold the tensors, into the boxes that its files
  // hold (kBoxAxis). By default they hold the same boxes as the ranks.
  [[nodiscard]] virtual llvm::Error CutIntoBoxes(const Strategy& strategy, const TrainingState& training,
                                                 std::span<const LogicalTensor> tensors, Layout& layout) const;
  // Returns the files of a checkpoint that holds the tensors and the training state.
  virtual llvm::Expected<TargetFiles> LayOut(const TargetRequest& request) const = 0;
  // Returns the ranks of the target's job that open each of the files that LayOut() made of the same request: by
  // default all do.
  virtual llvm::Expected<FileReaders> Readers(const TargetRequest& request, const TargetFiles& target) const;
};

// Returns every format, in the order in which they are listed (format_list.cpp).
std::span<const std::unique_ptr<const Format>> AllFormats();
// nullptr if there is none of this name.
const Format* FindFormat(std::string_view name);
// nullptr if no format has a file of this name with a header.
const Format* FindFormatOfHeader(std::string_view path);

}  // namespace ucp
