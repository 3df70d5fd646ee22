// Files that lie beside a checkpoint and belong to its model (its configuration, its tokenizer) or to the loop that
// trains it (the states of Hugging Face's Trainer and Accelerate). They are copied byte for byte. Some are pickles: a
// target gets those that hold nothing but known objects (objects/).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/layout/left_out.h"

namespace ucp {

// Those of them that a format's folders also have.
enum class CompanionKind { kNone, kOfModel, kOfModelAndLoop };

// Returns whether files of this name are pickles.
bool IsPickleCompanion(const std::string& name);

struct CompanionFile {
  std::string name;
  std::string content;
};

struct Companions {
  std::vector<CompanionFile> files;  // By name.
  std::vector<std::string>
      left_behind;  // Those of the loop, without kOfModelAndLoop; with it, unknown files in a root.
};

// Returns those of the known names (companions.cpp) in the checkpoint's own folder, in the one that the user named, and
// in the root with the `latest` that belongs to the first; the first that has one gives it. Fails (kBadData) for one
// that is larger than any real one.
llvm::Expected<Companions> FindCompanions(ReadableFileSystem& files, CompanionKind kind, const std::string& checkpoint,
                                          const std::string& named);

// Takes out the pickles with objects that are neither known nor ("module.name") one of `keep`, and those that cannot be
// read. Appends the entries that go to `left_out`, and a sentence for each of the latter to `remarks`.
void TakeOutUnknown(Companions& companions, std::span<const std::string> keep, std::vector<LeftOut>& left_out,
                    std::vector<std::string>& remarks);

// Returns whether a file of this name in the root of a checkpoint, or in the folder of a model, is one of these, or one
// that DeepSpeed or we put there.
bool BelongsBesideCheckpoint(const std::string& name);

// "rng_state_3.pth" and "random_states_3.pkl" belong to rank 3 alone. Returns nothing for other names.
std::optional<std::int64_t> RankOfCompanion(const std::string& name);

}  // namespace ucp
