// A round is one AllGather. What a rank gives in it says itself what it is: whether more will come or something failed,
// which pieces there are, and their bytes. So ranks need not know what others read for whom, and a rank that fails says
// so in the next round, which all come to.
#include "runtime/load/exchange.h"

#include <algorithm>
#include <future>
#include <map>
#include <set>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "runtime/executor/saved_progress.h"

namespace ucp {
namespace {

enum State : std::uint64_t { kLast, kMore, kFailed };

constexpr std::uint64_t kMostRoundBytes = std::uint64_t{16} << 20;  // More does not make it faster.
constexpr std::uint64_t kLeastPieceBytes = 4096;

std::string Encode(const std::vector<SharedContents>& contents) {
  ProgressWriter writer;
  for (const SharedContents& shared : contents) {
    if (shared.ranks.size() < 2) continue;
    writer.Add(shared.ranks.size());
    for (int rank : shared.ranks) writer.Add(static_cast<std::uint64_t>(rank));
  }
  return writer.bytes();
}

std::uint64_t BytesOf(const Content& content, const Piece& piece) {
  return static_cast<std::uint64_t>((piece.end - piece.begin) * ItemBytes(content.range.dtype));
}

}  // namespace

llvm::Error Exchange::AgreeOnSizes() {
  // Each round is held once by its reader, once as it is given, and as often as there are ranks.
  const std::uint64_t share = options_.memory_bytes / static_cast<std::uint64_t>(ranks_.size() + 2);
  ProgressWriter writer;
  writer.Add(std::min(options_.chunk_bytes, std::max(share, kLeastPieceBytes)));
  writer.Add(std::min(share, kMostRoundBytes));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(writer.bytes()));
  for (const std::string& one : all) {
    ProgressReader reader(one);
    const std::uint64_t piece = reader.Number();
    const std::uint64_t round = reader.Number();
    piece_bytes_ = piece_bytes_ == 0 ? piece : std::min(piece_bytes_, piece);
    round_bytes_ = round_bytes_ == 0 ? round : std::min(round_bytes_, round);
  }
  return llvm::Error::success();
}

llvm::Error Exchange::NumberSets() {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(Encode(contents_)));
  std::set<std::vector<int>> known;
  for (const std::string& one : all) {
    ProgressReader reader(one);
    while (!reader.left().empty() && !reader.has_failed()) {
      std::vector<int> members(reader.Count());
      for (int& member : members) member = static_cast<int>(reader.Number());
      known.insert(std::move(members));
    }
  }
  std::map<std::vector<int>, const SharedContents*> own;
  for (const SharedContents& shared : contents_) own[shared.ranks] = &shared;
  for (const std::vector<int>& members : known) {
    Set& set = sets_.emplace_back();
    auto found = own.find(members);
    if (found == own.end()) continue;
    set.shared = found->second;
    set.pieces = CutIntoPieces(plan_, set.shared->contents, piece_bytes_);
    Deal(sets_.size() - 1);
  }
  return llvm::Error::success();
}

void Exchange::Deal(std::uint64_t set) {
  const std::vector<int>& members = sets_[set].shared->ranks;
  std::set<std::pair<std::uint64_t, int>> lightest;  // Bytes so far, and the rank.
  for (int member : members) lightest.insert({0, member});
  for (std::size_t piece = 0; piece < sets_[set].pieces.size(); ++piece) {
    auto [bytes, member] = *lightest.begin();
    lightest.erase(lightest.begin());
    if (member == ranks_.rank()) mine_.push_back({set, piece});
    lightest.insert({bytes + BytesOf({set, piece}), member});
  }
}

std::uint64_t Exchange::BytesOf(const Task& task) const {
  const Piece& piece = sets_[task.set].pieces[task.piece];
  return ucp::BytesOf(sets_[task.set].shared->contents[piece.content], piece);
}

std::string Exchange::NextRound(Read read) {
  std::vector<Task> tasks;
  std::vector<std::uint64_t> begins{0};
  while (done_ + tasks.size() < mine_.size()) {
    const Task& next = mine_[done_ + tasks.size()];
    if (!tasks.empty() && begins.back() + BytesOf(next) > round_bytes_) break;
    tasks.push_back(next);
    begins.push_back(begins.back() + BytesOf(next));
  }
  done_ += tasks.size();
  ProgressWriter header;
  header.Add(std::uint64_t{done_ < mine_.size() ? kMore : kLast});
  header.Add(tasks.size());
  for (const Task& task : tasks) {
    header.Add(task.set);
    header.Add(task.piece);
    header.Add(BytesOf(task));
  }
  std::string round = header.bytes();
  const std::size_t header_bytes = round.size();
  round.resize(header_bytes + begins.back());
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(round)).subspan(header_bytes);
  llvm::Error error =
      ForEachInParallel(tasks.size(), options_.parallel, [&](unsigned thread, std::uint64_t number) -> llvm::Error {
        const Set& set = sets_[tasks[number].set];
        const Piece& piece = set.pieces[tasks[number].piece];
        return read(thread, RangeOf(set.shared->contents[piece.content], piece),
                    bytes.subspan(begins[number], begins[number + 1] - begins[number]));
      });
  if (!error) return round;
  FailureText failure = Describe(std::move(error));
  ProgressWriter failed;
  failed.Add(std::uint64_t{kFailed});
  failed.Add(static_cast<std::uint64_t>(failure.code));
  failed.Add(std::string_view(failure.message));
  return failed.bytes();
}

llvm::Expected<bool> Exchange::Place(const std::vector<std::string>& rounds) {
  bool has_more = false;
  bool has_failed = false;
  for (std::size_t rank = 0; rank < rounds.size(); ++rank) {
    ProgressReader reader(rounds[rank]);
    const std::uint64_t state = reader.Number();
    if (state == kFailed) {
      has_failed = true;
      const auto code = static_cast<ErrorCode>(reader.Number());
      if (static_cast<int>(rank) == ranks_.rank()) return MakeError(code, reader.Text());
      continue;
    }
    has_more = has_more || state == kMore;
    std::vector<std::pair<Task, std::uint64_t>> tasks(reader.Count());
    for (auto& [task, task_bytes] : tasks) {
      task.set = reader.Number();
      task.piece = reader.Number();
      task_bytes = reader.Number();
    }
    std::span<const std::byte> bytes = std::as_bytes(std::span(reader.left()));
    for (const auto& [task, task_bytes] : tasks) {
      UCP_CHECK(task.set < sets_.size() && task_bytes <= bytes.size(), "rank {} gives {} bytes of set {}", rank,
                task_bytes, task.set);
      const Set& set = sets_[task.set];
      if (set.shared != nullptr) {
        const Piece& piece = set.pieces[task.piece];
        PlaceAll(places_, set.shared->contents[piece.content], piece, bytes.first(task_bytes));
        if (static_cast<int>(rank) != ranks_.rank()) bytes_received_ += task_bytes;
      }
      bytes = bytes.subspan(task_bytes);
    }
  }
  if (has_failed) return Fail(ErrorCode::kCancelled, "another rank failed");
  return has_more;
}

llvm::Error Exchange::Run(Read read) {
  UCP_RETURN_IF_ERROR(AgreeOnSizes());
  UCP_RETURN_IF_ERROR(NumberSets());
  if (sets_.empty()) return llvm::Error::success();
  std::string mine = NextRound(read);
  for (bool has_more = true; has_more;) {
    std::future<std::string> next = std::async(std::launch::async, [&] { return NextRound(read); });
    llvm::Expected<std::vector<std::string>> rounds = ranks_.AllGather(mine);
    mine = next.get();
    if (!rounds) return rounds.takeError();
    UCP_ASSIGN_OR_RETURN(has_more, Place(*rounds));
  }
  return llvm::Error::success();
}

}  // namespace ucp
