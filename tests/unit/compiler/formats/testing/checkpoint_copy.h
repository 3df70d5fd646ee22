// A copy of a checkpoint in a temporary folder, to be damaged. Verbs throughout: copy, remove, truncate, edit.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/format.h"
#include "compiler/formats/pytorch/values/value.h"
#include "compiler/layout/target.h"
#include "compiler/support/error.h"

namespace ucp::testing {

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class CheckpointCopy {
 public:
  // Of the fixture's root. `folder()` is the checkpoint proper.
  explicit CheckpointCopy(const std::string& fixture);
  // Of a root that was written elsewhere; `tag` is the folder in it.
  CheckpointCopy(const std::string& root, const std::string& tag);

  std::string root() const { return temporary_.path() + "/root"; }
  std::string folder() const { return root() + "/" + tag_; }

  void Remove(const std::string& file);
  void Rename(const std::string& from, const std::string& to);
  void Copy(const std::string& from, const std::string& to);
  void Truncate(const std::string& file, std::uint64_t bytes);
  void Write(const std::string& file, const std::string& content);
  void MakeFolder(const std::string& name);
  // Rewrites the pickle of a `.pt` file; its storages keep their data.
  void Edit(const std::string& file, const std::function<pytorch::ValuePtr(const pytorch::ValuePtr&)>& change);
  // Sets the value at a path of text keys and list places: Set("a.pt", {"optimizer_state_dict", "overflow"}, …). A new
  // key is added; null removes the key.
  void Set(const std::string& file, const std::vector<std::string>& path, const pytorch::ValuePtr& value);

 private:
  TemporaryFolder temporary_;
  std::string tag_;
};

// The description of the copy, whatever its format.
llvm::Expected<Checkpoint> Read(const CheckpointCopy& copy, const RankPreference& preference = {},
                                unsigned threads = 1);
// It is refused with this code, in one line that has all these words.
// Weights are read, and nothing else; why has these words.
void ExpectWeightsAlone(const CheckpointCopy& copy, const std::vector<std::string>& words);

void ExpectFailure(const CheckpointCopy& copy, ErrorCode code, const std::vector<std::string>& words);

// The value with the one at `path` replaced.
pytorch::ValuePtr Replaced(const pytorch::ValuePtr& root, std::span<const std::string> path,
                           const pytorch::ValuePtr& value);

// Writes a target to disk: ready-made bytes, and each record filled with a pattern, checksums included.
void WriteTarget(const TargetFiles& target, const std::string& folder);

// The error of an operation that must fail.
template <typename T>
FailureText FailureOf(llvm::Expected<T> result) {
  if (result) return {ErrorCode::kUsage, "it did not fail"};
  return TakeFailure(result.takeError());
}

}  // namespace ucp::testing
