// The items of a job's state (compiler/formats/dcp/entries/stored_items.h): boxes in the segments of ranks, and the
// values that ranks pickled. Both are read as files of one folder, which a file system of segments has (runtime/save).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/dcp/entries/stored_items.h"
#include "compiler/formats/format.h"
#include "compiler/formats/source_archives.h"
#include "runtime/job_state/job_state.h"

namespace ucp {

// The folder of a job's state. `/dev/null` is not a folder, so no other file has such a path.
inline constexpr const char* kJobFolder = "/dev/null/job";

// Tensors up to this size that are neither the model's nor moments of its optimizer are carried as values.
inline constexpr std::uint64_t kMostSmallBytes = std::uint64_t{64} << 10;

// "rank_3": the file that is the rank's segment.
std::string SegmentName(std::size_t rank);
bool IsSegmentName(const std::string& name);  // Of files of kJobFolder.
// "rank_3_values.pt": an archive of torch.save, of a dict of the rank's values by key.
std::string ValuesName(std::size_t rank);

class JobItems final : public dcp::StoredItems {
 public:
  // Enters the files of kJobFolder into the storage of `checkpoint`, and reads the values. All must outlive the result.
  static llvm::Expected<std::unique_ptr<JobItems>> Make(const JoinedState& state, ReadableFileSystem& files,
                                                        Checkpoint& checkpoint);

  const dcp::ItemTensor& tensor(const dcp::Chunk& chunk) const override { return tensors_.at(&chunk); }
  Record record(const dcp::Chunk& chunk) const override;
  llvm::Expected<std::unordered_map<const dcp::Entry*, pytorch::ValuePtr>> Keep(
      std::vector<const dcp::Entry*> entries) override;

 private:
  JobItems(ReadableFileSystem& files, Checkpoint& checkpoint);
  [[nodiscard]] llvm::Error OpenValues(std::size_t rank);
  llvm::Expected<pytorch::ValuePtr> KeepTensor(const dcp::Entry& entry);
  llvm::Expected<pytorch::ValuePtr> KeepValue(const dcp::Entry& entry);

  Storage& storage_;
  TrainingState& training_;
  SourceArchives archives_;
  std::vector<FileId> segments_;  // By rank.
  std::vector<std::unique_ptr<ReadableFile>> open_;
  std::unordered_map<const dcp::Chunk*, dcp::ItemTensor> tensors_;
  std::vector<SourceArchive> values_;  // By rank; without a file where a rank has none that count.
  std::vector<std::unordered_map<std::string, pytorch::ValuePtr>> value_of_key_;  // By rank.
  std::unordered_map<std::string, std::string> small_tensor_keys_;                // By dtype and content.
};

// The checkpoint that a job's state is. Headers are read: the values, and tensors that are taken as values, such as
// steps of an optimizer.
llvm::Expected<Checkpoint> DescribeJob(const JoinedState& state, ReadableFileSystem& files, const std::string& tag);

}  // namespace ucp
