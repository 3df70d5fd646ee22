#include "runtime/peer_files/files_of_all_ranks.h"

#include <llvm/ADT/StringRef.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"
#include "runtime/comm/nodes.h"
#include "runtime/peer_files/header_blocks.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {

class FilesOfAllRanks::RemoteFile : public ReadableFile {
 public:
  // Of a file whose `headers` are read more is asked for than is needed at once; of one that is moved, what is needed.
  RemoteFile(RemoteFiles& remote, int rank, std::string path, std::uint64_t bytes, bool headers)
      : remote_(remote), rank_(rank), path_(std::move(path)), bytes_(bytes) {
    if (headers) blocks_ = std::make_unique<HeaderBlocks>(bytes);
  }

  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return bytes_; }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    auto ask = [&](std::uint64_t from, std::span<std::byte> part) {
      return remote_.Read(rank_, path_, {from, part.size(), {}}, part);
    };
    return blocks_ == nullptr ? ask(offset, buffer) : blocks_->ReadAt(offset, buffer, ask);
  }

 private:
  RemoteFiles& remote_;
  const int rank_;
  const std::string path_;
  const std::uint64_t bytes_;
  std::unique_ptr<HeaderBlocks> blocks_;
};

llvm::Expected<std::unique_ptr<FilesOfAllRanks>> FilesOfAllRanks::Start(Communicator& ranks, ReadableFileSystem& files,
                                                                        bool reads_headers) {
  if (ranks.size() == 1) {
    return Fail(ErrorCode::kUsage,
                "{} is for several ranks, and here is one; start it on all nodes: mpirun -n N ucprun …",
                OptionName(UserOption::kNodeLocal));
  }
  UCP_RETURN_IF_ERROR(Agree(ranks, ranks.has_messages() ? llvm::Error::success()
                                                        : Fail(ErrorCode::kUsage,
                                                               "{} needs an MPI library that several threads may call "
                                                               "(MPI_THREAD_MULTIPLE), and this one is for one thread",
                                                               OptionName(UserOption::kNodeLocal))));
  std::unique_ptr<FilesOfAllRanks> all(new FilesOfAllRanks(ranks, files, reads_headers));
  UCP_ASSIGN_OR_RETURN(all->node_of_rank_, NodesOfRanks(ranks));
  all->server_ = std::make_unique<FileServer>(ranks, files);
  return all;
}

bool FilesOfAllRanks::Holds(const FilePlace& place) const {
  return std::ranges::binary_search(place.holders, ranks_.rank());
}

// Those who see a file share the work of reading it for others.
int FilesOfAllRanks::Reader(const FilePlace& place) const {
  return place.holders[static_cast<std::size_t>(ranks_.rank()) % place.holders.size()];
}

llvm::Expected<std::vector<PathStatus>> FilesOfAllRanks::AskForStatus(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(FileStatus mine, mine_.Status(path));
  UCP_ASSIGN_OR_RETURN(std::vector<std::vector<Look>> others, remote_.AskAll(RequestKind::kStatus, path));
  std::vector<PathStatus> seen;
  for (const std::vector<Look>& looks : others) {
    seen.push_back({static_cast<int>(seen.size()), looks.empty() ? mine : looks.front().status});
  }
  return seen;
}

llvm::Expected<FilePlace> FilesOfAllRanks::Find(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (auto found = places_.find(path); found != places_.end()) return found->second;
  UCP_ASSIGN_OR_RETURN(std::vector<PathStatus> seen, AskForStatus(path));
  UCP_ASSIGN_OR_RETURN(FilePlace place, PlaceOf(path, seen, node_of_rank_, ranks_.noun()));
  return places_.emplace(path, std::move(place)).first->second;
}

// Each rank tells of the files that it sees, by number.
llvm::Error FilesOfAllRanks::Locate(const std::string& root, const std::vector<StoredFile>& source_files) {
  std::vector<Look> mine;
  llvm::Error error = llvm::Error::success();
  for (std::size_t file = 0; file < source_files.size() && !error; ++file) {
    paths_of_source_.push_back(JoinPath(root, source_files[file].path));
    llvm::Expected<FileStatus> status = mine_.Status(paths_of_source_.back());
    if (!status) {
      error = status.takeError();
    } else if (status->kind != PathKind::kMissing) {
      mine.push_back({std::to_string(file), *status});
    }
  }
  UCP_RETURN_IF_ERROR(Agree(ranks_, std::move(error)));
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> all, ranks_.AllGather(Encode(mine)));
  std::vector<std::vector<PathStatus>> seen(source_files.size());
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    UCP_ASSIGN_OR_RETURN(const std::vector<Look> looks, DecodeLooks(all[static_cast<std::size_t>(rank)]));
    for (const Look& look : looks) {
      std::size_t file = 0;
      if (llvm::StringRef(look.name).getAsInteger(10, file) || file >= seen.size()) {
        return Fail(ErrorCode::kIo,
                    "{0} {1} sees a file `{2}` that the plan does not read; all {0}s must run the same ucp",
                    ranks_.noun(), rank, look.name);
      }
      seen[file].push_back({rank, look.status});
    }
  }
  std::lock_guard lock(mutex_);
  places_.clear();  // Of what was looked at on the way here, little is asked for again.
  for (std::size_t file = 0; file < source_files.size(); ++file) {
    // All ranks come to the same result.
    UCP_ASSIGN_OR_RETURN(FilePlace place, PlaceOf(paths_of_source_[file], seen[file], node_of_rank_, ranks_.noun()));
    if (place.holders.empty()) {
      return Fail(ErrorCode::kBadData, "`{}`, which the plan reads, is at none of the {} {}s; plan again",
                  paths_of_source_[file], ranks_.size(), ranks_.noun());
    }
    places_.emplace(paths_of_source_[file], place);
    places_of_source_.push_back(std::move(place));
  }
  return llvm::Error::success();
}

llvm::Error FilesOfAllRanks::ReadRows(FileId file, const ByteRows& rows, std::span<std::byte> packed) {
  return remote_.Read(Reader(places_of_source_[file.index()]), paths_of_source_[file.index()], rows, packed);
}

bool FilesOfAllRanks::AnswersFor(FileId file) const {
  return places_of_source_[file.index()].holders.front() == ranks_.rank();
}

std::uint64_t FilesOfAllRanks::MemoryBytes() const {
  std::uint64_t bytes = FileServer::MemoryBytes();
  constexpr std::uint64_t kEntryBytes = 512;  // Of all tables together.
  for (std::size_t file = 0; file < paths_of_source_.size(); ++file) {
    bytes += kEntryBytes + 3 * paths_of_source_[file].size() + 2 * sizeof(int) * places_of_source_[file].holders.size();
  }
  return bytes;
}

llvm::Expected<std::unique_ptr<ReadableFile>> FilesOfAllRanks::OpenForReading(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(FilePlace place, Find(path));
  // A file that no rank has is an error here.
  if (place.holders.empty() || Holds(place)) return mine_.OpenForReading(path);
  const bool headers = reads_headers_ && paths_of_source_.empty();  // Nothing is moved before Locate().
  return std::make_unique<RemoteFile>(remote_, Reader(place), path, place.status.bytes, headers);
}

llvm::Expected<PathKind> FilesOfAllRanks::Kind(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(FilePlace place, Find(path));
  return place.status.kind;
}

llvm::Expected<FileStatus> FilesOfAllRanks::Status(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(FilePlace place, Find(path));
  if (Holds(place)) return mine_.Status(path);
  return place.status;
}

llvm::Expected<std::vector<DirectoryEntry>> FilesOfAllRanks::List(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(FilePlace folder, Find(path));
  if (folder.status.kind != PathKind::kDirectory) return mine_.List(path);
  UCP_ASSIGN_OR_RETURN(std::vector<std::vector<Look>> looks, remote_.AskAll(RequestKind::kList, path));
  UCP_ASSIGN_OR_RETURN(PathKind kind, mine_.Kind(path));
  if (kind == PathKind::kDirectory) {
    UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, mine_.List(path));
    for (DirectoryEntry& entry : entries) {
      UCP_ASSIGN_OR_RETURN(FileStatus status, mine_.Status(JoinPath(path, entry.name)));
      looks[static_cast<std::size_t>(ranks_.rank())].push_back({std::move(entry.name), status});
    }
  }
  std::map<std::string, std::vector<PathStatus>> seen;  // By name.
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (Look& look : looks[static_cast<std::size_t>(rank)]) {
      seen[std::move(look.name)].push_back({rank, look.status});
    }
  }
  std::lock_guard lock(mutex_);
  std::vector<DirectoryEntry> all;
  for (const auto& [name, sights] : seen) {
    const std::string full = JoinPath(path, name);
    UCP_ASSIGN_OR_RETURN(FilePlace place, PlaceOf(full, sights, node_of_rank_, ranks_.noun()));
    all.push_back({name, place.status.kind == PathKind::kDirectory, place.status.bytes, place.status.is_link});
    places_.insert_or_assign(full, std::move(place));
  }
  return all;
}

}  // namespace ucp
