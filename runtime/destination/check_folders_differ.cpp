#include "runtime/destination/check_folders_differ.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// By getrandom(): std::random_device in its place would need glibc 2.36.
std::string NewName() {
  std::uint64_t number = 0;
  UCP_CHECK(getrandom(&number, sizeof number, 0) == ssize_t{sizeof number}, "getrandom() gave no number");
  return fmt::format("{:016x}", number);
}

// Whether the file was made: not, if there is one, or none can be made.
bool Make(FileSystem& files, const std::string& path, const std::string& text) {
  auto make = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.CreateForWriting(path, text.size()));
    llvm::Error error = file->WriteAt(0, std::as_bytes(std::span(text)));
    if (!error) error = file->Close();
    if (error) llvm::consumeError(files.RemoveTree(path));
    return error;
  };
  llvm::Error error = make();
  const bool is_made = !error;
  llvm::consumeError(std::move(error));
  return is_made;
}

// The rank that stands in the file, if it is of this run.
std::string MakerOf(FileSystem& files, const std::string& path, const std::string& run) {
  constexpr std::uint64_t kMostBytes = 64;
  llvm::Expected<std::string> text = ReadWholeFile(files, path, kMostBytes);
  if (text && text->starts_with(run)) return text->substr(run.size());
  llvm::consumeError(text.takeError());
  return "";
}

}  // namespace

llvm::Error CheckFoldersDiffer(FileSystem& files, const std::string& destination, const TargetParts& parts,
                               Communicator& ranks) {
  const bool is_leader = parts.LeaderOf(parts.PartOf(ranks.rank())) == ranks.rank();
  const std::string path = BesideDestination(destination, "node");
  if (is_leader) llvm::consumeError(files.RemoveTree(path));  // Of a run that was killed here.
  bool is_mine = false;
  auto look = [&]() -> llvm::Expected<std::vector<std::string>> {
    UCP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ranks.AllGather(NewName()));
    const std::string run = names.front() + " ";
    is_mine = is_leader && Make(files, path, run + std::to_string(ranks.rank()));
    UCP_RETURN_IF_ERROR(ranks.AllGather("").takeError());  // Nobody looks before all have made theirs.
    // The rank that made it also looks: not every file system lets one alone make a file.
    std::string maker = is_leader ? MakerOf(files, path, run) : "";
    if (maker == std::to_string(ranks.rank())) maker.clear();
    return ranks.AllGather(maker);
  };
  llvm::Expected<std::vector<std::string>> makers = look();
  llvm::Error removed = is_mine ? files.RemoveTree(path) : llvm::Error::success();
  if (!makers) return llvm::joinErrors(makers.takeError(), std::move(removed));
  UCP_RETURN_IF_ERROR(Agree(ranks, std::move(removed)));
  for (std::size_t rank = 0; rank < makers->size(); ++rank) {
    if ((*makers)[rank].empty()) continue;
    return Fail(ErrorCode::kUsage,
                "{0} {1} and {0} {2} are on different nodes and see the same folder `{3}`; leave out {4}, "
                "or name a folder on a disk that each node has for itself",
                ranks.noun(), (*makers)[rank], rank, ParentOf(destination),
                OptionName(UserOption::kNodeLocal, "destination"));
  }
  return llvm::Error::success();
}

}  // namespace ucp
