#include "tests/unit/runtime/convert/recorded_files.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "compiler/files/lasting_inodes.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::size_t kRoot = 1;

llvm::Error Missing(const std::string& path) { return Fail(ErrorCode::kIo, "cannot find `{}`", path); }

std::vector<std::string> PartsOf(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < path.size();) {
    std::size_t end = std::min(path.find('/', begin), path.size());
    std::string part = path.substr(begin, end - begin);
    if (part == ".." && !parts.empty()) {
      parts.pop_back();
    } else if (!part.empty() && part != "." && part != "..") {
      parts.push_back(part);
    }
    begin = end + 1;
  }
  return parts;
}

}  // namespace

class RecordedFiles::Reading : public ReadableFile {
 public:
  Reading(std::string path, std::string content) : path_(std::move(path)), content_(std::move(content)) {}
  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return content_.size(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override {
    if (offset > content_.size() || buffer.size() > content_.size() - offset) return Missing(path_);
    std::memcpy(buffer.data(), content_.data() + offset, buffer.size());
    return llvm::Error::success();
  }

 private:
  std::string path_;
  std::string content_;  // Nobody writes what is read.
};

class RecordedFiles::Writing : public WritableFile {
 public:
  Writing(RecordedFiles& owner, NodeId node) : owner_(owner), node_(node) {}
  llvm::Error WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Record({Change::Kind::kWrite, node_, {}, offset, std::move(text)});
  }
  llvm::Error Sync() override { return Record({Change::Kind::kSync, node_, {}, 0, ""}); }
  llvm::Error Close() override { return llvm::Error::success(); }

 private:
  llvm::Error Record(Change change) {
    std::lock_guard lock(owner_.mutex_);
    UCP_RETURN_IF_ERROR(owner_.CheckAlive());
    owner_.Make(std::move(change));
    return llvm::Error::success();
  }

  RecordedFiles& owner_;
  NodeId node_;
};

class RecordedFiles::Whole : public WholeSync {
 public:
  explicit Whole(RecordedFiles& owner) : owner_(owner) {}
  std::size_t least_paths() const override { return 1; }
  llvm::Error Sync() override {
    std::lock_guard lock(owner_.mutex_);
    UCP_RETURN_IF_ERROR(owner_.CheckAlive());
    owner_.Make({Change::Kind::kSyncAll, 0, {}, 0, ""});
    return llvm::Error::success();
  }

 private:
  RecordedFiles& owner_;
};

class RecordedFiles::Lock : public FileLock {
 public:
  Lock(RecordedFiles& owner, std::string path) : owner_(owner), path_(std::move(path)) {}
  ~Lock() override {
    std::lock_guard lock(owner_.mutex_);
    if (owner_.log_.size() >= owner_.dies_after_) return;
    Place place = owner_.Find(path_);
    owner_.Make({Change::Kind::kNames, place.folder, {{place.name, 0}}, 0, ""});
    owner_.held_.erase(path_);
  }

 private:
  RecordedFiles& owner_;
  std::string path_;
};

RecordedFiles::RecordedFiles() : nodes_(kRoot + 1) {
  nodes_[kRoot].is_directory = true;
  before_ = nodes_;
}

void RecordedFiles::Put(const std::string& path, const std::string& content) {
  std::vector<std::string> parts = PartsOf(path);
  NodeId folder = kRoot;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    NodeId next = nodes_[folder].entries[parts[i]];
    if (next == 0) {
      next = Add(i + 1 < parts.size());
      nodes_[folder].entries[parts[i]] = next;
    }
    folder = next;
  }
  nodes_[folder].content = content;
  before_ = nodes_;
}

std::map<std::string, std::string> RecordedFiles::FilesUnder(const std::string& folder) {
  std::map<std::string, std::string> files;
  auto entries = List(folder);
  if (!entries) {
    llvm::consumeError(entries.takeError());
    return files;
  }
  for (const DirectoryEntry& entry : *entries) {
    if (!entry.is_directory) {
      files[entry.name] = nodes_[Find(JoinPath(folder, entry.name)).node].content;
      continue;
    }
    for (auto& [path, content] : FilesUnder(JoinPath(folder, entry.name))) {
      files[JoinPath(entry.name, path)] = std::move(content);
    }
  }
  return files;
}

std::unique_ptr<RecordedFiles> RecordedFiles::AfterPowerCut(std::size_t changes,
                                                            const std::function<Fate(std::size_t)>& fate) const {
  std::vector<std::size_t> durable_before(nodes_.size(), 0);
  for (std::size_t i = 0; i < changes; ++i) {
    if (log_[i].kind == Change::Kind::kSync) durable_before[log_[i].node] = i;
    if (log_[i].kind == Change::Kind::kSyncAll) std::fill(durable_before.begin(), durable_before.end(), i);
  }
  auto result = std::make_unique<RecordedFiles>();
  result->can_exchange = can_exchange;
  result->can_sync_whole = can_sync_whole;
  result->inodes_last = inodes_last;
  result->nodes_ = before_;
  result->nodes_.resize(nodes_.size());
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    result->nodes_[node].is_directory = nodes_[node].is_directory;
    result->nodes_[node].inode = nodes_[node].inode;
  }
  for (std::size_t i = 0; i < changes; ++i) {
    Change change = log_[i];
    Fate what = i < durable_before[change.node] ? Fate::kDone : fate(i);
    if (what == Fate::kGarbled && change.kind != Change::Kind::kWrite) what = Fate::kLost;
    if (what == Fate::kLost) continue;
    if (what == Fate::kGarbled) change.bytes.assign(change.bytes.size(), '?');
    Apply(result->nodes_, change);
  }
  result->before_ = result->nodes_;
  return result;
}

llvm::Expected<std::unique_ptr<ReadableFile>> RecordedFiles::OpenForReading(const std::string& path) {
  std::lock_guard lock(mutex_);
  UCP_RETURN_IF_ERROR(CheckAlive());
  NodeId node = Find(path).node;
  if (node == 0 || nodes_[node].is_directory) return Missing(path);
  return std::make_unique<Reading>(path, nodes_[node].content);
}

llvm::Expected<std::unique_ptr<WritableFile>> RecordedFiles::CreateForWriting(const std::string& path,
                                                                              std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  UCP_RETURN_IF_ERROR(CheckAlive());
  Place place = Find(path);
  if (place.folder == 0 || place.node != 0) return Missing(path);
  NodeId node = Add(false);
  Make({Change::Kind::kNames, place.folder, {{place.name, node}}, 0, ""});
  Make({Change::Kind::kSize, node, {}, bytes, ""});
  return std::make_unique<Writing>(*this, node);
}

llvm::Expected<std::unique_ptr<WritableFile>> RecordedFiles::OpenForWriting(const std::string& path) {
  std::lock_guard lock(mutex_);
  UCP_RETURN_IF_ERROR(CheckAlive());
  NodeId node = Find(path).node;
  if (node == 0 || nodes_[node].is_directory) return Missing(path);
  return std::make_unique<Writing>(*this, node);
}

llvm::Expected<PathKind> RecordedFiles::Kind(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(FileStatus status, Status(path));
  return status.kind;
}

llvm::Expected<FileStatus> RecordedFiles::Status(const std::string& path) {
  std::lock_guard lock(mutex_);
  UCP_RETURN_IF_ERROR(CheckAlive());
  FileStatus status;
  NodeId node = Find(path).node;
  if (node == 0) return status;
  status.kind = nodes_[node].is_directory ? PathKind::kDirectory : PathKind::kFile;
  status.bytes = nodes_[node].content.size();
  status.inode = nodes_[node].is_directory || inodes_last ? nodes_[node].inode : kFleetingInode;
  status.inode_lasts = inodes_last;
  return status;
}

llvm::Expected<std::vector<DirectoryEntry>> RecordedFiles::List(const std::string& path) {
  std::lock_guard lock(mutex_);
  UCP_RETURN_IF_ERROR(CheckAlive());
  UCP_ASSIGN_OR_RETURN(NodeId folder, FindDirectory(path));
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, node] : nodes_[folder].entries) {
    if (node != 0) entries.push_back({name, nodes_[node].is_directory, nodes_[node].content.size()});
  }
  return entries;
}

llvm::Error RecordedFiles::MakeDirectory(const std::string& path) {
  std::lock_guard lock(mutex_);
  UCP_RETURN_IF_ERROR(CheckAlive());
  Place place = Find(path);
  if (place.folder == 0 || place.node != 0) return Missing(path);
  NodeId node = Add(true);
  Make({Change::Kind::kNames, place.folder, {{place.name, node}}, 0, ""});
  return llvm::Error::success();
}

llvm::Error RecordedFiles::SyncDirectory(const std::string& path) {
  std::lock_guard lock(mutex_);
  UCP_RETURN_IF_ERROR(CheckAlive());
  UCP_ASSIGN_OR_RETURN(NodeId folder, FindDirectory(path));
  Make({Change::Kind::kSync, folder, {}, 0, ""});
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<WholeSync>> RecordedFiles::OpenWholeSync(const std::string&) {
  if (!can_sync_whole) return Fail(ErrorCode::kUnsupported, "cannot be synced as a whole here");
  return std::make_unique<Whole>(*this);
}

llvm::Error RecordedFiles::Rename(const std::string& from, const std::string& to) {
  std::lock_guard lock(mutex_);
  UCP_RETURN_IF_ERROR(CheckAlive());
  Place source = Find(from);
  Place target = Find(to);
  if (source.node == 0 || source.folder != target.folder || target.node != 0) return Missing(from);
  Make({Change::Kind::kNames, source.folder, {{source.name, 0}, {target.name, source.node}}, 0, ""});
  return llvm::Error::success();
}

llvm::Error RecordedFiles::Exchange(const std::string& a, const std::string& b) {
  std::lock_guard lock(mutex_);
  UCP_RETURN_IF_ERROR(CheckAlive());
  if (!can_exchange) return Fail(ErrorCode::kUnsupported, "cannot exchange here");
  Place first = Find(a);
  Place second = Find(b);
  if (first.node == 0 || second.node == 0 || first.folder != second.folder) return Missing(a);
  Make({Change::Kind::kNames, first.folder, {{first.name, second.node}, {second.name, first.node}}, 0, ""});
  return llvm::Error::success();
}

llvm::Error RecordedFiles::RemoveTree(const std::string& path) {
  std::lock_guard lock(mutex_);
  UCP_RETURN_IF_ERROR(CheckAlive());
  Place place = Find(path);
  if (place.node != 0) RemoveBelow(place.folder, place.name);
  return llvm::Error::success();
}

llvm::Expected<std::uint64_t> RecordedFiles::FreeBytes(const std::string&) { return std::uint64_t{1} << 40; }

llvm::Expected<bool> RecordedFiles::IsWritable(const std::string&) { return true; }

llvm::Expected<std::unique_ptr<FileLock>> RecordedFiles::TryLock(const std::string& path) {
  std::lock_guard lock(mutex_);
  UCP_RETURN_IF_ERROR(CheckAlive());
  if (!held_.insert(path).second) return std::unique_ptr<FileLock>();
  Place place = Find(path);
  if (place.node == 0) Make({Change::Kind::kNames, place.folder, {{place.name, Add(false)}}, 0, ""});
  return std::make_unique<Lock>(*this, path);
}

RecordedFiles::Place RecordedFiles::Find(const std::string& path) const {
  Place place{0, "", kRoot};
  for (const std::string& part : PartsOf(path)) {
    if (place.node == 0 || !nodes_[place.node].is_directory) return {};
    auto entry = nodes_[place.node].entries.find(part);
    place = {place.node, part, entry == nodes_[place.node].entries.end() ? 0 : entry->second};
  }
  return place;
}

llvm::Expected<RecordedFiles::NodeId> RecordedFiles::FindDirectory(const std::string& path) const {
  NodeId node = Find(path).node;
  if (node == 0 || !nodes_[node].is_directory) return Missing(path);
  return node;
}

RecordedFiles::NodeId RecordedFiles::Add(bool is_directory) {
  std::set<std::uint64_t> taken;
  std::vector<NodeId> folders = {kRoot};
  while (!folders.empty()) {
    const Node& folder = nodes_[folders.back()];
    folders.pop_back();
    for (const auto& [name, node] : folder.entries) {
      if (node == 0) continue;
      taken.insert(nodes_[node].inode);
      if (nodes_[node].is_directory) folders.push_back(node);
    }
  }
  std::uint64_t inode = 1;
  while (taken.contains(inode)) ++inode;
  nodes_.push_back({is_directory, inode, "", {}});
  return nodes_.size() - 1;
}

void RecordedFiles::Revive() {
  std::lock_guard lock(mutex_);
  dies_after_ = static_cast<std::size_t>(-1);
  held_.clear();
}

llvm::Error RecordedFiles::CheckAlive() const {
  return log_.size() < dies_after_ ? llvm::Error::success() : Fail(ErrorCode::kIo, "killed");
}

void RecordedFiles::Make(Change change) {
  if (log_.size() >= dies_after_) return;
  Apply(nodes_, change);
  log_.push_back(std::move(change));
}

void RecordedFiles::Apply(std::vector<Node>& nodes, const Change& change) {
  Node& node = nodes[change.node];
  switch (change.kind) {
    case Change::Kind::kNames:
      for (const auto& [name, entry] : change.names) node.entries[name] = entry;
      return;
    case Change::Kind::kSize:
      node.content.resize(std::max<std::size_t>(node.content.size(), change.offset), '\0');
      return;
    case Change::Kind::kWrite:
      node.content.resize(std::max<std::size_t>(node.content.size(), change.offset + change.bytes.size()), '\0');
      node.content.replace(change.offset, change.bytes.size(), change.bytes);
      return;
    case Change::Kind::kSync:
    case Change::Kind::kSyncAll:
      return;
  }
}

// One name after the other, as a system does it.
void RecordedFiles::RemoveBelow(NodeId folder, const std::string& name) {
  NodeId node = nodes_[folder].entries.at(name);
  std::vector<std::string> names;
  for (const auto& [entry, child] : nodes_[node].entries) {
    if (child != 0) names.push_back(entry);
  }
  for (const std::string& entry : names) RemoveBelow(node, entry);
  Make({Change::Kind::kNames, folder, {{name, 0}}, 0, ""});
}

}  // namespace ucp
